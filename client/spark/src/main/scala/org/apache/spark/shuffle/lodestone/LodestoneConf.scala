// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.util.Locale
import java.util.concurrent.TimeUnit

import org.slf4j.LoggerFactory

import org.apache.spark.SparkConf
import org.apache.spark.network.util.{ByteUnit, JavaUtils}

/** Where the services are found. */
private[spark] sealed trait ServiceSource

private[spark] object ServiceSource {

  /** The plugin starts the bundled daemon on each executor's host. */
  case object Embedded extends ServiceSource

  /** A fixed list of `host:port`. */
  final case class Listed(addresses: Seq[HostPort]) extends ServiceSource

  /** Every address that a name resolves to, for instance a headless Kubernetes service. */
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

/** Where shuffle data is. */
private[spark] sealed abstract class Mode(val name: String)

private[spark] object Mode {

  /** Those that gain by it, as far as can be told: see [[driver.MergeChoice]]. */
  case object Auto extends Mode("auto")

  /** Every shuffle that can be. */
  case object Merge extends Mode("merge")

  /** Executors keep none of it. */
  case object Remote extends Mode("remote")

  val all: Seq[Mode] = Seq(Auto, Merge, Remote)
}

/** All settings of the plugin, read once and checked. docs/configuration.md describes each. */
private[spark] final case class LodestoneConf(
    mode: Mode,
    services: ServiceSource,
    replicas: Int,
    pushMaxBlockSizeBytes: Long,
    pushBatchSizeBytes: Long,
    pushMemoryBytes: Long,
    finalizeTimeoutMs: Long,
    requestTimeoutMs: Long,
    leaseTtlMs: Long,
    embeddedMemoryBytes: Option[Long],
    embeddedIdleTimeoutMs: Long,
    embeddedBinary: Option[String])

private[spark] object LodestoneConf {

  val Prefix = "spark.lodestone."

  private val log = LoggerFactory.getLogger("org.apache.spark.shuffle.lodestone.conf")

  /** One documented key: its default as a user would write it ("" = unset). */
  final case class Key(name: String, default: String, doc: String)

  val ModeKey: Key = Key(
    Prefix + "mode",
    Mode.Auto.name,
    "Where the map outputs are. `merge`: executors keep them and push copies to services, which " +
      "merge them. `auto`: the same, but only for shuffles that gain by it, judged by the number " +
      "and size of their blocks and the speed of the executors' disks. `remote`: only services " +
      "keep them.")
  val Services: Key = Key(
    Prefix + "services",
    "",
    "Addresses of the shuffle services: `host:port,host:port`, or `dns:name:port` for every " +
      "address of a name. If unset, the plugin starts the bundled daemon on each executor's host.")
  val Replicas: Key = Key(
    Prefix + "replicas",
    "1",
    "Number of services that hold each segment of a remote shuffle. With 2, one of them may be " +
      "lost.")
  val PushMaxBlockSize: Key = Key(
    Prefix + "push.maxBlockSize",
    "1m",
    "Largest block that is pushed. Larger blocks stay in the map output: reading them is " +
      "sequential anyway.")
  val PushBatchSize: Key =
    Key(Prefix + "push.batchSize", "4m", "Largest push request. A request holds several blocks.")
  val PushMemory: Key = Key(
    Prefix + "push.memory",
    "64m",
    "Bytes of requests that one executor may have in flight or, in mode remote, fill. In mode " +
      "remote a request takes 256 KiB or more, and one large record may exceed the limit.")
  val FinalizeTimeout: Key = Key(
    Prefix + "finalize.timeout",
    "3s",
    "Longest time that the first reader waits for pushes that are still under way.")
  val RequestTimeout: Key = Key(
    Prefix + "request.timeout",
    "5s",
    "Request time-out: this value plus 1 s per MiB of the request. The plugin avoids a service " +
      "that is silent for longer, for 10 to 80 s.")
  val LeaseTtl: Key = Key(
    Prefix + "lease.ttl",
    "120s",
    "How long a service keeps the data of an application whose driver is silent.")
  val EmbeddedMemory: Key = Key(
    Prefix + "embedded.memory",
    "auto",
    "Memory of a daemon that the plugin starts: a size, or `auto`: 256 MiB, plus memory that " +
      "the host has to spare.")
  val EmbeddedIdleTimeout: Key = Key(
    Prefix + "embedded.idleTimeout",
    "60s",
    "A daemon that the plugin started ends after this long without a connection.")
  val EmbeddedBinary: Key = Key(
    Prefix + "embedded.binary",
    "",
    "Path of a daemon to start instead of the bundled one. It must exist on every executor's " +
      "host.")

  /** Every key there is. */
  val keys: Seq[Key] = Seq(
    ModeKey,
    Services,
    Replicas,
    PushMaxBlockSize,
    PushBatchSize,
    PushMemory,
    FinalizeTimeout,
    RequestTimeout,
    LeaseTtl,
    EmbeddedMemory,
    EmbeddedIdleTimeout,
    EmbeddedBinary)

  private val Auto = "auto"
  private val Kib = 1024L
  private val Mib = 1024L * Kib

  /** What a daemon needs, and what it may have where each container pays for what runs in it. */
  private val MinDaemonBytes = 16 * Mib
  private val ContainedDaemonBytes = 256 * Mib

  /** A batch travels as one UploadStream, whose body the protocol limits to 64 MiB. */
  private val MaxBatchBytes = 64L * Mib

  /** Bounds of a lease in the protocol. */
  private val MinLeaseMs = TimeUnit.SECONDS.toMillis(10)
  private val MaxLeaseMs = TimeUnit.HOURS.toMillis(1)

  /** Every wait of the plugin ends within this. */
  private val MaxWaitMs = TimeUnit.MINUTES.toMillis(10)
  private val MinRequestTimeoutMs = 100L
  private val MaxIdleMs = TimeUnit.DAYS.toMillis(1)

  /** More services than this in one static list is a mistake. */
  private val MaxListedServices = 1000

  /** Reads and checks all settings; an error names the key and says what to write instead. */
  def apply(conf: SparkConf): LodestoneConf = {
    unknownKey(conf).foreach(unknown => throw new IllegalArgumentException(unknown))
    checked(conf)
  }

  /**
   * For an executor. A key that it does not know the driver does, or the application would not have
   * begun: the executor's jar is older, and its tasks go on without what the key would have changed.
   */
  def onExecutor(conf: SparkConf): LodestoneConf = {
    unknownKey(conf).foreach { unknown =>
      log.warn(s"$unknown It is left out here; the driver's jar seems to be newer.")
    }
    checked(conf)
  }

  private def checked(conf: SparkConf): LodestoneConf = {
    val batch = bytes(conf, PushBatchSize, 64 * Kib, MaxBatchBytes)
    val maxBlock = bytes(conf, PushMaxBlockSize, 1, MaxBatchBytes)
    if (maxBlock > batch) {
      refuse(
        PushMaxBlockSize,
        text(conf, PushMaxBlockSize),
        s"at most ${PushBatchSize.name} (${text(conf, PushBatchSize)}), since a block is never cut")
    }
    LodestoneConf(
      mode = mode(conf),
      services = serviceSource(conf),
      replicas = replicas(conf),
      pushMaxBlockSizeBytes = maxBlock,
      pushBatchSizeBytes = batch,
      pushMemoryBytes = bytes(conf, PushMemory, batch, Long.MaxValue),
      finalizeTimeoutMs = millis(conf, FinalizeTimeout, 0, MaxWaitMs),
      requestTimeoutMs = millis(conf, RequestTimeout, MinRequestTimeoutMs, MaxWaitMs),
      leaseTtlMs = millis(conf, LeaseTtl, MinLeaseMs, MaxLeaseMs),
      embeddedMemoryBytes = embeddedMemory(conf),
      embeddedIdleTimeoutMs = millis(conf, EmbeddedIdleTimeout, 1000, MaxIdleMs),
      embeddedBinary = Some(text(conf, EmbeddedBinary)).filter(_.nonEmpty))
  }

  private def text(conf: SparkConf, key: Key): String = conf.get(key.name, key.default).trim

  private def refuse(key: Key, value: String, expected: String): Nothing =
    throw new IllegalArgumentException(s"${key.name} is '$value', but must be $expected.")

  private def unknownKey(conf: SparkConf): Option[String] = {
    val known = keys.map(_.name)
    val ours = conf.getAll.map(_._1).filter(_.startsWith(Prefix)).sorted
    ours.find(!known.contains(_)).map { name =>
      val nearest = known.minBy(editDistance(name, _))
      s"There is no configuration key $name; did you mean $nearest?"
    }
  }

  private def mode(conf: SparkConf): Mode = {
    val value = text(conf, ModeKey).toLowerCase(Locale.ROOT)
    Mode.all.find(_.name == value).getOrElse {
      refuse(ModeKey, value, Mode.all.map(mode => s"'${mode.name}'").mkString(" or "))
    }
  }

  private def replicas(conf: SparkConf): Int = {
    val value = text(conf, Replicas)
    if (!value.matches("[12]")) refuse(Replicas, value, "1 or 2")
    if (value != Replicas.default && mode(conf) != Mode.Remote) {
      refuse(Replicas, value, s"${Replicas.default} unless ${ModeKey.name} is remote")
    }
    value.toInt
  }

  private def serviceSource(conf: SparkConf): ServiceSource = {
    val value = text(conf, Services)
    val expected = "'host:port,host:port', 'dns:name:port', or unset"
    if (value.isEmpty) {
      ServiceSource.Embedded
    } else if (value.startsWith("dns:")) {
      HostPort
        .parse(value.stripPrefix("dns:"))
        .map(address => ServiceSource.Dns(address.host, address.port))
        .getOrElse(refuse(Services, value, expected))
    } else {
      val addresses = value.split(",").toSeq.map(_.trim).filter(_.nonEmpty).map { one =>
        HostPort.parse(one).getOrElse(refuse(Services, value, expected))
      }
      if (addresses.isEmpty || addresses.size > MaxListedServices) {
        refuse(Services, value, expected)
      }
      ServiceSource.Listed(addresses.distinct)
    }
  }

  /** Nothing: that is the daemon's to find out. */
  private def embeddedMemory(conf: SparkConf): Option[Long] =
    if (text(conf, EmbeddedMemory).toLowerCase(Locale.ROOT) != Auto) {
      Some(bytes(conf, EmbeddedMemory, MinDaemonBytes, Long.MaxValue, s"256m, or '$Auto'"))
    } else if (conf.get("spark.master", "") == "yarn") {
      // YARN adds up the processes of a container, and kills them all when they take too much.
      Some(ContainedDaemonBytes)
    } else {
      None
    }

  /** A number without a unit is refused: `3` would be 3 ms to one reader and 3 s to the next. */
  private def millis(conf: SparkConf, key: Key, min: Long, max: Long): Long = {
    val value = text(conf, key).toLowerCase(Locale.ROOT)
    val number = parsed(value, "\\d+(ms|s|m|min|h|d)") {
      JavaUtils.timeStringAs(_, TimeUnit.MILLISECONDS)
    }
    number.filter(n => n >= min && n <= max).getOrElse {
      val range = s"between ${min}ms and ${max}ms"
      refuse(key, value, s"a time with a unit $range, such as ${key.default}")
    }
  }

  private def bytes(conf: SparkConf, key: Key, min: Long, max: Long): Long =
    bytes(conf, key, min, max, key.default)

  private def bytes(conf: SparkConf, key: Key, min: Long, max: Long, example: String): Long = {
    val value = text(conf, key).toLowerCase(Locale.ROOT)
    val number = parsed(value, "\\d+(b|k|kb|m|mb|g|gb|t|tb)") {
      JavaUtils.byteStringAs(_, ByteUnit.BYTE)
    }
    number.filter(n => n >= min && n <= max).getOrElse {
      val range =
        if (max == Long.MaxValue) s"of at least ${min}b" else s"between ${min}b and ${max}b"
      refuse(key, value, s"a size with a unit $range, such as $example")
    }
  }

  private def parsed(value: String, pattern: String)(convert: String => Long): Option[Long] =
    try {
      Some(value).filter(_.matches(pattern)).map(convert)
    } catch {
      case _: IllegalArgumentException => None
    }

  /** Levenshtein's, on key names: only for the hint in an error. */
  private def editDistance(a: String, b: String): Int =
    a.foldLeft((0 to b.length).toVector) { (above, ca) =>
      b.indices.foldLeft(Vector(above.head + 1)) { (row, j) =>
        val change = above(j) + (if (ca == b(j)) 0 else 1)
        row :+ math.min(change, math.min(row.last, above(j + 1)) + 1)
      }
    }.last
}
