// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.{Collections, List => JList}

import io.netty.channel.Channel
import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.network.client.{TransportClient, TransportClientBootstrap}
import org.apache.spark.network.crypto.AuthClientBootstrap
import org.apache.spark.network.sasl.SecretKeyHolder
import org.apache.spark.network.util.TransportConf

/**
 * How a connection to a service proves that it is of this application, and is encrypted: as Spark's
 * own connections to its shuffle service, with the user's settings for these
 * (`SparkEnv.securityManager`, `AuthClientBootstrap`).
 *
 * @param settings
 *   Spark's settings for the handshake and the cipher
 * @param handshake
 *   begins each connection
 */
private[spark] final class Protection private (
    val settings: Map[String, String],
    handshake: Option[TransportConf => TransportClientBootstrap]) {

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

  /** Connections are as they come: for services without secrets. */
  val none: Protection = new Protection(Map.empty, None)

  def of(
      conf: SparkConf,
      secrets: () => SecretKeyHolder = () => SparkEnv.get.securityManager): Protection =
    if (conf.getBoolean("spark.authenticate", false)) {
      val settings = conf.getAll.toMap.filter { case (key, _) => Prefixes.exists(key.startsWith) }
      val appId = conf.getAppId
      // The secret is asked for when there is a connection.
      val handshake = (transport: TransportConf) =>
        new TransportClientBootstrap {
          override def doBootstrap(client: TransportClient, channel: Channel): Unit =
            new AuthClientBootstrap(transport, appId, secrets()).doBootstrap(client, channel)
        }
      new Protection(settings ++ NoFallback, Some(handshake))
    } else {
      none
    }
}
