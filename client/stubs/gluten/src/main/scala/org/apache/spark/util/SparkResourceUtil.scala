// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.util

import org.apache.spark.SparkConf

/**
 * Stands for gluten-core/src/main/scala/org/apache/spark/util/SparkResourceUtil.scala of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
object SparkResourceUtil {
  def getTaskSlots(conf: SparkConf): Int = conf.getInt("spark.executor.cores", 1)
}
