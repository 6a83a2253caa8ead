// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.config

import java.util.Locale
import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.commons.text.similarity.LevenshteinDistance
import org.apache.spark.SparkConf
import org.apache.spark.internal.config.{ConfigBuilder, ConfigEntry, TypedConfigBuilder}
import org.apache.spark.network.util.JavaUtils

/** How the plugin finds the services. */
private[spark] sealed trait ServiceSource

private[spark] object ServiceSource {

  /** The plugin starts the bundled daemon on each executor's host. */
  case object Embedded extends ServiceSource

  /** A fixed list of `host:port`. */
  final case class Listed(addresses: Seq[HostPort]) extends ServiceSource

  /** All addresses that a name resolves to, for instance a headless Kubernetes service. */
  final case class Dns(name: String, port: Int) extends ServiceSource
}

private[spark] final case class HostPort(host: String, port: Int) {
  override def toString: String = s"$host:$port"
}

private[spark] object HostPort {
  private val MaxPort = 65535

  /** Splits at the last colon, so that `[::1]:7337` works. */
  def parse(text: String): Option[HostPort] = {
    val colon = text.lastIndexOf(':')
    if (colon <= 0) {
      None
    } else {
      val host = text.substring(0, colon)
      val wellFormed = !host.contains(':') || (host.startsWith("[") && host.endsWith("]"))
      Some(text.substring(colon + 1))
        .filter(port => wellFormed && port.matches("\\d{1,5}"))
        .map(_.toInt)
        .filter(port => port > 0 && port <= MaxPort)
        .map(HostPort(host, _))
    }
  }
}

/** Where the map outputs of an application are. */
private[spark] sealed abstract class Mode(val name: String)

private[spark] object Mode {

  /** Executors keep them, and push blocks if a shuffle gains: [[driver.plans.MergeChoice]]. */
  case object Auto extends Mode("auto")

  /** Executors keep them. Services get a copy of every shuffle that can be merged. */
  case object Merge extends Mode("merge")

  /** Only services keep them. */
  case object Remote extends Mode("remote")

  val all: Seq[Mode] = Seq(Auto, Merge, Remote)
}

/** All settings of the plugin, read once and checked. docs/configuration.md describes each. */
private[spark] final class LodestoneConf private (conf: SparkConf) {
  import LodestoneConf._

  val mode: Mode = conf.get(ModeKey)
  val services: ServiceSource = conf.get(Services)
  val replicas: Int = conf.get(Replicas)
  val encodedRows: Boolean = conf.get(EncodedRows)
  val nearReads: Boolean = conf.get(NearReads)
  val pushMaxBlockSizeBytes: Long = conf.get(PushMaxBlockSize)
  val pushBatchSizeBytes: Long = conf.get(PushBatchSize)
  val pushMemoryBytes: Long = conf.get(PushMemory)
  val pushTimeoutMs: Long = conf.get(PushTimeout)
  val requestTimeoutMs: Long = conf.get(RequestTimeout)
  val leaseTtlMs: Long = conf.get(LeaseTtl)

  /** None if the daemon decides. YARN kills a container whose processes together take too much. */
  val embeddedMemoryBytes: Option[Long] = conf.get(EmbeddedMemory).orElse {
    Some(ContainedDaemonBytes).filter(_ => conf.get("spark.master", "") == "yarn")
  }
  val embeddedIdleTimeoutMs: Long = conf.get(EmbeddedIdleTimeout)
  val embeddedBinary: Option[String] = conf.get(EmbeddedBinary)

  if (replicas > 1 && mode != Mode.Remote) {
    refuse(conf, Replicas, s"${Replicas.defaultValueString} unless ${ModeKey.key} is remote")
  }
  if (pushMaxBlockSizeBytes > pushBatchSizeBytes) {
    refuse(conf, PushMaxBlockSize, s"at most ${batchSize(conf)}, since a block is never cut")
  }
  if (pushMemoryBytes < pushBatchSizeBytes) {
    refuse(conf, PushMemory, s"at least ${batchSize(conf)}, since a request must fit")
  }
}

/**
 * The keys, as entries of Spark's configuration. Their types are our own: Spark's `timeConf` takes
 * `3` for 3 ms, which a user may read as 3 s, and its errors do not name the key in all versions.
 */
private[spark] object LodestoneConf extends Logged {

  private val Prefix = "spark.lodestone."

  /** The largest batch. It travels as one UploadStream, whose body the protocol limits. */
  private val MaxBatch = "64m"

  /** Every wait of the plugin ends within this time. */
  private val MaxWait = "10min"

  /** More services than this in one static list is a mistake. */
  private val MaxListedServices = 1000

  /** The limit of a daemon whose memory a container pays for. */
  private val ContainedDaemonBytes = JavaUtils.byteStringAsBytes("256m")

  private val Size =
    new Quantity("size", "\\d+(b|k|kb|m|mb|g|gb|t|tb)")(JavaUtils.byteStringAsBytes)
  private val Time = new Quantity("time", "\\d+(ms|s|m|min|h|d)")(
    JavaUtils.timeStringAs(_, TimeUnit.MILLISECONDS))

  /** The least that a daemon needs. */
  private val DaemonSize = Size.atLeast("16m")

  private val defined = mutable.ArrayBuffer.empty[ConfigEntry[_]]

  val ModeKey: ConfigEntry[Mode] = key("mode")
    .doc("Where the map outputs are. `merge`: executors keep them and push their blocks to " +
      "services, which merge them. `auto`: the same, but only for shuffles that gain by it, " +
      "judged by the number and size of their blocks and the speed of the executors' disks. " +
      "`remote`: only services keep them.")
    .typed("auto", Mode.all.map(mode => s"'${mode.name}'").mkString(" or ")) { value =>
      Mode.all.find(_.name == lower(value))
    }

  val Services: ConfigEntry[ServiceSource] = key("services")
    .doc("Addresses of the shuffle services: `host:port,host:port`, or `dns:name:port` for every " +
      "address of a name. If unset, the plugin starts the bundled daemon on each executor's host.")
    .typed(
      "",
      s"'host:port,host:port' with at most $MaxListedServices addresses, " +
        "'dns:name:port', or unset")(serviceSource)

  val Replicas: ConfigEntry[Int] = key("replicas")
    .doc("Number of services that hold each segment of a remote shuffle. With 2, one of them may " +
      "be lost.")
    .typed("1", "1 or 2")(value => Some(value).filter(_.matches("[12]")).map(_.toInt))

  val EncodedRows: ConfigEntry[Boolean] = key("encodedRows")
    .doc(
      "Whether rows of Spark SQL's exchanges are stored by column, in about half of the bytes. " +
        "`false`: all blocks have Spark's format.")
    .typed("true", "'true' or 'false'")(flag)

  val NearReads: ConfigEntry[Boolean] = key("nearReads")
    .doc(
      "Whether reduce tasks of Spark SQL name the hosts of the services that have their data. " +
        "`false`: Spark alone decides where they run.")
    .typed("false", "'true' or 'false'")(flag)

  val PushMaxBlockSize: ConfigEntry[Long] = key("push.maxBlockSize")
    .doc("Largest block that is pushed. Larger blocks stay in the map output: reading them is " +
      "sequential anyway.")
    .quantity("1m", Size.between("1b", MaxBatch))

  val PushBatchSize: ConfigEntry[Long] = key("push.batchSize")
    .doc("Largest push request. A request holds several blocks.")
    .quantity("4m", Size.between("64k", MaxBatch))

  val PushMemory: ConfigEntry[Long] = key("push.memory")
    .doc("Most bytes of requests that one executor may have in flight; in mode remote, those " +
      "being filled count too. In mode remote a request takes 256 KiB or more, and one large " +
      "record may exceed the limit.")
    .quantity("64m", Size.atLeast("64k"))

  val PushTimeout: ConfigEntry[Long] = key("push.timeout")
    .doc("Longest time that the first reader waits for pushes that are still under way.")
    .quantity("3s", Time.between("0ms", MaxWait))

  val RequestTimeout: ConfigEntry[Long] = key("request.timeout")
    .doc("Request time-out: this value plus 1 s per MiB of the request. If a service is silent " +
      "for longer, the plugin avoids it for 10 to 80 s.")
    .quantity("5s", Time.between("100ms", MaxWait))

  /** The bounds are those of the protocol. */
  val LeaseTtl: ConfigEntry[Long] = key("lease.ttl")
    .doc("How long a service keeps the data of an application whose driver is silent.")
    .quantity("120s", Time.between("10s", "1h"))

  val EmbeddedMemory: ConfigEntry[Option[Long]] = key("embedded.memory")
    .doc(
      "Memory of a daemon that the plugin starts: a size, or `auto`: 256 MiB, plus memory that " +
        "the host has to spare.")
    .typed("auto", s"${DaemonSize.name}, such as 256m, or 'auto'") { value =>
      if (lower(value) == "auto") Some(None) else DaemonSize.parse(value).map(Some(_))
    }

  val EmbeddedIdleTimeout: ConfigEntry[Long] = key("embedded.idleTimeout")
    .doc("A daemon that the plugin started ends after this long without a connection.")
    .quantity("60s", Time.between("1s", "1d"))

  val EmbeddedBinary: ConfigEntry[Option[String]] = key("embedded.binary")
    .doc("Path of a daemon to start instead of the bundled one. It must exist on every " +
      "executor's host.")
    .typed("", "a path, or unset")(value => Some(Some(value).filter(_.nonEmpty)))

  val keys: Seq[ConfigEntry[_]] = defined.toList

  /** Reads and checks all settings; an error names the key and says what to write instead. */
  def apply(conf: SparkConf): LodestoneConf = {
    unknownKey(conf).foreach(unknown => throw new IllegalArgumentException(unknown))
    new LodestoneConf(conf)
  }

  /**
   * Reads the settings on an executor. The driver has checked the keys before, so the jar of an
   * executor that does not know one is older, and its tasks continue without it.
   */
  def onExecutor(conf: SparkConf): LodestoneConf = {
    unknownKey(conf).foreach { unknown =>
      log.warn(s"$unknown This executor ignores it; the driver's jar seems to be newer.")
    }
    new LodestoneConf(conf)
  }

  private def unknownKey(conf: SparkConf): Option[String] = {
    val known = keys.map(_.key)
    val ours = conf.getAll.map(_._1).filter(_.startsWith(Prefix)).sorted
    ours.find(!known.contains(_)).map { name =>
      val nearest = known.minBy(LevenshteinDistance.getDefaultInstance.apply(name, _))
      s"There is no configuration key $name; did you mean $nearest?"
    }
  }

  private def refuse(conf: SparkConf, entry: ConfigEntry[_], expected: String): Nothing =
    refuse(entry.key, written(conf, entry), expected)

  private def refuse(key: String, value: String, expected: String): Nothing =
    throw new IllegalArgumentException(s"$key is '$value', but must be $expected.")

  private def written(conf: SparkConf, entry: ConfigEntry[_]): String =
    conf.get(entry.key, entry.defaultValueString).trim

  private def batchSize(conf: SparkConf): String =
    s"${PushBatchSize.key} (${written(conf, PushBatchSize)})"

  /**
   * Begins an entry. Spark has one registry of entries, and refuses a second entry of a key. An
   * older entry of this key comes from another class loader with this jar. Without this removal the
   * second copy would fail here, before [[plan.TwoCopies]] can say where both copies are.
   */
  private def key(name: String): ConfigBuilder = {
    ConfigEntry.knownConfigs.remove(Prefix + name)
    ConfigBuilder(Prefix + name).onCreate(entry => defined += entry)
  }

  private implicit final class Types(private val builder: ConfigBuilder) extends AnyVal {

    /** An entry whose values `convert` accepts, without blanks around them. */
    def typed[T](
        default: String,
        expected: String)(convert: String => Option[T]): ConfigEntry[T] = {
      val key = builder.key
      def checked(value: String): T = convert(value).getOrElse(refuse(key, value, expected))
      new TypedConfigBuilder[T](builder, value => checked(value.trim))
        .createWithDefaultString(default)
    }

    def quantity(default: String, range: Range): ConfigEntry[Long] =
      typed(default, s"${range.name}, such as $default")(range.parse)
  }

  private def flag(value: String): Option[Boolean] =
    Some(lower(value)).filter(Set("true", "false")).map(_.toBoolean)

  private def lower(value: String): String = value.toLowerCase(Locale.ROOT)

  /** Numbers with a unit. Their bounds are written as users write them, for the errors. */
  private final class Quantity(name: String, pattern: String)(convert: String => Long) {

    def between(min: String, max: String): Range =
      new Range(s"a $name with a unit between $min and $max", parse(_, convert(min), convert(max)))

    def atLeast(min: String): Range =
      new Range(s"a $name with a unit of at least $min", parse(_, convert(min), Long.MaxValue))

    private def parse(value: String, min: Long, max: Long): Option[Long] =
      try {
        Some(lower(value))
          .filter(_.matches(pattern))
          .map(convert)
          .filter(number => number >= min && number <= max)
      } catch {
        // The number is too large for a Long.
        case _: IllegalArgumentException => None
      }
  }

  private final class Range(val name: String, val parse: String => Option[Long])

  private def serviceSource(value: String): Option[ServiceSource] =
    if (value.isEmpty) {
      Some(ServiceSource.Embedded)
    } else if (value.startsWith("dns:")) {
      HostPort
        .parse(value.stripPrefix("dns:"))
        .map(address => ServiceSource.Dns(address.host, address.port))
    } else {
      val parts = value.split(",").toSeq.map(_.trim).filter(_.nonEmpty)
      val addresses = parts.flatMap(part => HostPort.parse(part))
      Some(ServiceSource.Listed(addresses.distinct)).filter { _ =>
        addresses.size == parts.size && parts.nonEmpty && parts.size <= MaxListedServices
      }
    }
}
