// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import java.nio.file.{Path, Paths}

import org.apache.commons.codec.digest.DigestUtils
import org.apache.spark.SparkConf
import org.apache.spark.shuffle.lodestone.config.RpcTls

/**
 * The certificate that Spark 4 has for TLS between its processes, in the form that the daemon of an
 * executor's host can read: two files in PEM, of which the key has no password.
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
      if RpcTls.isOn(conf) && setting(conf, "privateKeyPassword").isEmpty
    } yield PemCertificate(absolute(cert), absolute(key))

  private def absolute(path: String): Path = Paths.get(path).toAbsolutePath

  private def setting(conf: SparkConf, name: String): Option[String] =
    conf.getOption(s"spark.ssl.rpc.$name").orElse(conf.getOption(s"spark.ssl.$name"))
}
