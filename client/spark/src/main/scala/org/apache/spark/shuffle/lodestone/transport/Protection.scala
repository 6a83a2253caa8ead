// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.{Collections, List => JList}

import io.netty.channel.Channel
import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.network.client.{TransportClient, TransportClientBootstrap}
import org.apache.spark.network.crypto.AuthClientBootstrap
import org.apache.spark.network.sasl.SecretKeyHolder
import org.apache.spark.network.util.TransportConf
import org.apache.spark.shuffle.lodestone.config.RpcTls

/**
 * How a connection to a service proves that it is of this application, and is encrypted: as Spark's
 * own connections to its shuffle service, with the user's settings for these
 * (`SparkEnv.securityManager`, `AuthClientBootstrap`, and TLS of Spark 4).
 *
 * @param asked
 *   returns Spark's settings for the handshake, the cipher and TLS, when there is a connection
 * @param handshake
 *   begins each connection
 */
private[spark] final class Protection private (
    asked: () => Map[String, String],
    handshake: Option[TransportConf => TransportClientBootstrap]) {

  def settings: Map[String, String] = asked()

  /** The first steps of each connection. */
  def bootstraps(conf: TransportConf): JList[TransportClientBootstrap] =
    handshake.fold(Collections.emptyList[TransportClientBootstrap]())(begin =>
      Collections.singletonList(begin(conf)))
}

private[spark] object Protection {

  /** No secret begins like these. */
  private val Prefixes =
    Seq("spark.network.crypto.", "spark.network.sasl.", "spark.authenticate.enableSaslEncryption")

  /**
   * Spark's client tries SASL after AES was denied, for services of Spark 2.2 and older. It would
   * send in the clear what is to be encrypted, and hide why it was denied.
   */
  private val NoFallback = Map("spark.network.crypto.saslFallback" -> "false")

  /** With TLS, nothing is encrypted twice (`SecurityManager.isEncryptionEnabled`). */
  private val NoCipher = Map(
    "spark.network.crypto.enabled" -> "false",
    "spark.authenticate.enableSaslEncryption" -> "false")

  /** Connections are as they come: for services without secrets and certificates. */
  val none: Protection = new Protection(() => Map.empty, None)

  def of(
      conf: SparkConf,
      secrets: () => SecretKeyHolder = () => SparkEnv.get.securityManager,
      tls: SparkConf => Map[String, String] =
        RpcTls.settings(_, SparkEnv.get.securityManager)): Protection = {
    val own = conf.getAll.toMap.filter { case (key, _) => Prefixes.exists(key.startsWith) }
    val settings = if (RpcTls.isOn(conf)) {
      () => own ++ NoCipher ++ tls(conf)
    } else { () =>
      own ++ NoFallback
    }
    new Protection(settings, handshake(conf, secrets))
  }

  private def handshake(
      conf: SparkConf,
      secrets: () => SecretKeyHolder): Option[TransportConf => TransportClientBootstrap] =
    if (conf.getBoolean("spark.authenticate", false)) {
      val appId = conf.getAppId
      // The secret is asked for when there is a connection.
      Some(transport =>
        new TransportClientBootstrap {
          override def doBootstrap(client: TransportClient, channel: Channel): Unit =
            new AuthClientBootstrap(transport, appId, secrets()).doBootstrap(client, channel)
        })
    } else {
      None
    }
}
