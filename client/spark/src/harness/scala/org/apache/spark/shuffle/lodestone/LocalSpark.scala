// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import org.apache.spark.SparkConf

/** A Spark in the JVM of a test, which nobody outside can reach. */
private[lodestone] object LocalSpark {

  def conf(name: String, master: String = "local[2]"): SparkConf = new SparkConf(false)
    .setMaster(master)
    .setAppName(name)
    .set("spark.ui.enabled", "false")
    .set("spark.driver.host", "127.0.0.1")
    .set("spark.driver.bindAddress", "127.0.0.1")
}
