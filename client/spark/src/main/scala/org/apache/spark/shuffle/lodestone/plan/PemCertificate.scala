// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import java.nio.file.{Path, Paths}

import org.apache.commons.codec.digest.DigestUtils
import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.config.RpcTls

/**
 * The certificate that Spark 4 has for TLS between its processes, in the form that the daemon of an
 * executor's host can read: two files in PEM with absolute paths, of which the key has no password.
 * (A relative path is another file for each executor.)
 */
private[lodestone] final case class PemCertificate(cert: Path, key: Path) {

  /** Names the files: applications that name others have another one. */
  def digest: String = DigestUtils.sha256Hex(s"$cert\n$key").take(PemCertificate.DigestChars)
}

private[lodestone] object PemCertificate {
  private val DigestChars = 16

  /** `None`: there is no TLS, or its certificate is in another form. */
  def of(conf: SparkConf): Option[PemCertificate] =
    for {
      cert <- setting(conf, "certChain")
      key <- setting(conf, "privateKey")
      if RpcTls.isOn(conf) && cert.isAbsolute && key.isAbsolute && !hasPassword(conf)
    } yield PemCertificate(cert, key)

  /** Spark hands passwords to executors in their environment (`SecurityManager`). */
  private def hasPassword(conf: SparkConf): Boolean =
    conf.contains("spark.ssl.rpc.privateKeyPassword") ||
      inherited(conf, "privateKeyPassword").isDefined ||
      sys.env.contains("_SPARK_SSL_RPC_PRIVATE_KEY_PASSWORD")

  private def setting(conf: SparkConf, name: String): Option[Path] =
    conf.getOption(s"spark.ssl.rpc.$name").orElse(inherited(conf, name)).map(Paths.get(_))

  /** What Spark takes where the setting of `spark.ssl.rpc` is missing (`SSLOptions.parse`). */
  private def inherited(conf: SparkConf, name: String): Option[String] =
    conf.getOption(s"spark.ssl.$name").filter(_ => conf.getBoolean("spark.ssl.enabled", false))
}
