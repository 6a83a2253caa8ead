// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import java.util.{Collections, List => JList}

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.network.client.TransportClientBootstrap
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
 */
private[spark] final class Protection private (
    isOn: Boolean,
    appId: String,
    val settings: Map[String, String],
    secrets: () => SecretKeyHolder) {

  /** The first steps of each connection. The secret is asked for when there is a connection. */
  def bootstraps(conf: TransportConf): JList[TransportClientBootstrap] =
    if (isOn) {
      Collections.singletonList((client, channel) =>
        new AuthClientBootstrap(conf, appId, secrets()).doBootstrap(client, channel))
    } else {
      Collections.emptyList()
    }
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
  val none: Protection = new Protection(false, "", Map.empty, () => null)

  def of(
      conf: SparkConf,
      secrets: () => SecretKeyHolder = () => SparkEnv.get.securityManager): Protection =
    if (conf.getBoolean("spark.authenticate", false)) {
      val settings = conf.getAll.toMap.filter { case (key, _) => Prefixes.exists(key.startsWith) }
      new Protection(true, conf.getAppId, settings ++ NoFallback, secrets)
    } else {
      none
    }
}
