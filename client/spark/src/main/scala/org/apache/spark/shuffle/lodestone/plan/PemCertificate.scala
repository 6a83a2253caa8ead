// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.SparkConf

/**
 * The certificate that Spark 4 has for TLS between its processes, in the form that the daemon of an
 * executor's host can read: two files in PEM.
 */
private[lodestone] final case class PemCertificate(cert: String, key: String)

private[lodestone] object PemCertificate {

  /** `None`: there is no TLS, or its certificate is in a key store of Java. */
  def of(conf: SparkConf): Option[PemCertificate] =
    for {
      cert <- setting(conf, "certChain")
      key <- setting(conf, "privateKey")
      if isTlsOn(conf)
    } yield PemCertificate(cert, key)

  def isTlsOn(conf: SparkConf): Boolean = conf.getBoolean("spark.ssl.rpc.enabled", false)

  private def setting(conf: SparkConf, name: String): Option[String] =
    conf.getOption(s"spark.ssl.rpc.$name").orElse(conf.getOption(s"spark.ssl.$name"))
}
