// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.apache.spark.{ShuffleDependency, SparkConf, SPARK_VERSION}
import org.apache.spark.internal.config
import org.apache.spark.io.CompressionCodec
import org.apache.spark.shuffle.lodestone.config.{LodestoneConf, RpcTls, ServiceSource}
import org.apache.spark.storage.StorageUtils

/** Decides whether a shuffle can be merged or remote at all. */
private[lodestone] object ShuffleEligibility {

  private val SecretFiles = Seq("file", "driver.file", "executor.file")
    .map(name => s"spark.authenticate.secret.$name")
  private val CounterMode = "AES/CTR/NoPadding"

  /** Spark has the second one since 4.0. */
  private val KnownCiphers =
    Seq(CounterMode) ++ Seq("AES/GCM/NoPadding").filterNot(_ => SPARK_VERSION.startsWith("3."))
  private val LocalDiskIo = "org.apache.spark.shuffle.sort.io.LocalDiskShuffleDataIO"
  private val OurIo = Set(LocalDiskIo, classOf[RemoteShuffleDataIO].getName)

  /**
   * Returns the reason why the shuffle cannot be merged, if there is one.
   *
   * @param frames
   *   the format of its blocks if an engine writes it
   */
  def obstacle(
      conf: SparkConf,
      dependency: ShuffleDependency[_, _, _],
      frames: Option[BlockFormat.EngineFrames]): Option[Reason] =
    remoteObstacle(conf, frames)
      .orElse(if (frames.isEmpty) streamObstacle(conf, dependency) else None)
      .orElse(firstOf(
        Reason.BarrierStage -> (() => dependency.rdd.isBarrier()),
        Reason.SingleMap -> (() => dependency.rdd.getNumPartitions <= 1),
        Reason.NoPartitions -> (() => dependency.partitioner.numPartitions == 0)))

  /** Returns the reason why several blocks in a row, decrypted, cannot be read as one stream. */
  def streamObstacle(
      conf: SparkConf,
      dependency: ShuffleDependency[_, _, _]): Option[Reason] =
    firstOf(
      Reason.SerializerNotRelocatable ->
        (() => !dependency.serializer.supportsRelocationOfSerializedObjects),
      Reason.CodecNotConcatenable ->
        (() => conf.getBoolean("spark.shuffle.compress", true) && !codecConcatenates(conf)))

  /**
   * True if the bytes of several blocks in a row are one stream, whose borders nobody has to know.
   * With IO encryption each block has an initialisation vector of its own.
   */
  def areOneStream(conf: SparkConf, dependency: ShuffleDependency[_, _, _]): Boolean =
    !conf.get(config.IO_ENCRYPTION_ENABLED) && streamObstacle(conf, dependency).isEmpty

  /**
   * True if a map output has the bytes that its writer wrote. Other plugins for shuffle IO may
   * change them; and if attempts of a map have one name, Spark keeps the output that came first.
   */
  def keepsWrittenBytes(conf: SparkConf): Boolean = hasLocalDiskIo(conf) && !hasOldMapIds(conf)

  private def hasLocalDiskIo(conf: SparkConf): Boolean =
    OurIo.contains(conf.get(RemoteDefaults.IoPlugin, LocalDiskIo))

  private def hasOldMapIds(conf: SparkConf): Boolean =
    conf.getBoolean("spark.shuffle.useOldFetchProtocol", false)

  /** Returns the reason why a shuffle cannot be remote. Engines do not encrypt their frames. */
  def remoteObstacle(
      conf: SparkConf,
      frames: Option[BlockFormat.EngineFrames]): Option[Reason] =
    remoteObstacle(conf).orElse(
      firstOf(Reason.EngineNotEncrypted ->
        (() => frames.isDefined && conf.get(config.IO_ENCRYPTION_ENABLED))))

  /** Returns the reason why no shuffle of this application can be remote. */
  def remoteObstacle(conf: SparkConf): Option[Reason] =
    firstOf(
      Reason.CipherUnknown -> (() => hasUnknownCipher(conf)),
      Reason.SecretNotShared -> (() => hasSecretOfItsOwn(conf)),
      // Since Spark 4. Lodestone does not send in the clear what Spark would encrypt.
      Reason.RpcEncryption -> (() => lacksCertificate(conf)),
      Reason.SparkPush -> (() => conf.getBoolean("spark.shuffle.push.enabled", false)),
      Reason.CustomShuffleIo -> (() => !hasLocalDiskIo(conf)),
      // Then the map id is the map index. Readers compare map ids, so a map attempt that Spark has
      // replaced would look like the attempt that replaced it.
      Reason.OldFetchProtocol -> (() => hasOldMapIds(conf)))

  /** Spark's own service has these ciphers, and Lodestone's has not. */
  private def hasUnknownCipher(conf: SparkConf): Boolean =
    conf.getBoolean("spark.authenticate", false) && !RpcTls.isOn(conf) && {
      if (conf.getBoolean("spark.network.crypto.enabled", false)) {
        !KnownCiphers.exists(conf.get("spark.network.crypto.cipher", CounterMode).equalsIgnoreCase)
      } else {
        conf.getBoolean("spark.authenticate.enableSaslEncryption", false)
      }
    }

  /**
   * True if Spark makes a secret for the application, whatever is configured
   * (`SecurityManager.initializeAuth`), and the services are not those that executors start, which
   * get it from them.
   */
  private def hasSecretOfItsOwn(conf: SparkConf): Boolean =
    conf.getBoolean("spark.authenticate", false) &&
      !isEmbedded(conf) &&
      (conf.get("spark.master", "") match {
        case "yarn" => !areOfNodeManagers(conf)
        case master if master.startsWith("k8s") => !SecretFiles.exists(conf.contains(_))
        case master => master.startsWith("local") && !master.startsWith("local-cluster")
      })

  /** Daemons of executors' hosts read no key store of Java. */
  private def lacksCertificate(conf: SparkConf): Boolean =
    RpcTls.isOn(conf) && isEmbedded(conf) && PemCertificate.of(conf).isEmpty

  /**
   * True if the services are where Spark looks for the shuffle services of NodeManagers, to which
   * it sends the secret with each container (`lodestone-yarn.jar`). YARN's configuration may have
   * the port.
   */
  private def areOfNodeManagers(conf: SparkConf): Boolean =
    conf.get(config.SHUFFLE_SERVICE_ENABLED) && {
      val port = StorageUtils.externalShuffleServicePort(conf)
      conf.get(LodestoneConf.Services) match {
        case ServiceSource.Listed(addresses) => addresses.forall(_.port == port)
        case ServiceSource.Dns(_, named) => named == port
        case ServiceSource.Embedded => false
      }
    }

  private def isEmbedded(conf: SparkConf): Boolean =
    conf.get(LodestoneConf.Services) == ServiceSource.Embedded

  private def firstOf(obstacles: (Reason, () => Boolean)*): Option[Reason] =
    obstacles.collectFirst { case (reason, isThere) if isThere() => reason }

  private def codecConcatenates(conf: SparkConf): Boolean =
    CompressionCodec.supportsConcatenationOfSerializedStreams(CompressionCodec.createCodec(conf))
}
