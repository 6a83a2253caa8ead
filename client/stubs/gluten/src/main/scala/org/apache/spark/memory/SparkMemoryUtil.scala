// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.memory

/**
 * Stands for gluten-core/src/main/scala/org/apache/spark/memory/SparkMemoryUtil.scala of
 * apache/incubator-gluten, v1.6.0 (89718982).
 */
object SparkMemoryUtil {
  def getCurrentAvailableOffHeapMemory: Long = Long.MaxValue
}
