// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.config

import org.apache.spark.{SecurityManager, SparkConf}
import org.apache.spark.network.util.ConfigProvider

/** TLS between Spark's processes, which Spark has since version 4 (`spark.ssl.rpc`). */
private[lodestone] object RpcTls {

  private val Prefix = "spark.ssl.rpc."

  /** `None`: Spark 3.5, which has no TLS here, whatever is configured. */
  private val rpcOptions =
    classOf[SecurityManager].getMethods.find(_.getName == "getRpcSSLOptions")

  def isOn(conf: SparkConf): Boolean =
    rpcOptions.isDefined && conf.getBoolean(s"${Prefix}enabled", false)

  /**
   * Spark's settings, as its own connections have them (`SparkTransportConf`): paths and passwords
   * may come from credential providers, from the environment, and from `spark.ssl`.
   */
  def settings(conf: SparkConf, security: SecurityManager): Map[String, String] =
    rpcOptions.fold(Map.empty[String, String]) { method =>
      val options = method.invoke(security)
      val provider = options.getClass
        .getMethod("createConfigProvider", classOf[SparkConf])
        .invoke(options, conf)
        .asInstanceOf[ConfigProvider]
      val own = Map.newBuilder[String, String]
      provider.getAll.forEach { entry =>
        if (entry.getKey.startsWith(Prefix)) own += entry.getKey -> entry.getValue
      }
      own.result()
    }
}
