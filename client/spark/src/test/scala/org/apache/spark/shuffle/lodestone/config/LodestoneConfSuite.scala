// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.config

import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Paths}

import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.shuffle.lodestone.{LocalSpark, LogCapture, SecondCopy}

class LodestoneConfSuite {

  private def read(settings: (String, String)*): LodestoneConf =
    LodestoneConf(new SparkConf(false).setAll(settings))

  private def refusal(settings: (String, String)*): String =
    assertThrows(classOf[IllegalArgumentException], () => read(settings: _*)).getMessage

  @Test def `nothing configured means the embedded daemon and the defaults of the table`(): Unit = {
    assertDefaults(read())
  }

  private def assertDefaults(conf: LodestoneConf): Unit = {
    assertEquals(Mode.Auto, conf.mode)
    assertEquals(ServiceSource.Embedded, conf.services)
    assertEquals(1, conf.replicas)
    assertTrue(conf.encodedRows)
    assertFalse(conf.nearReads)
    assertEquals(1L << 20, conf.pushMaxBlockSizeBytes)
    assertEquals(4L << 20, conf.pushBatchSizeBytes)
    assertEquals(64L << 20, conf.pushMemoryBytes)
    assertEquals(3000L, conf.pushTimeoutMs)
    assertEquals(5000L, conf.requestTimeoutMs)
    assertEquals(120000L, conf.leaseTtlMs)
    assertEquals(None, conf.embeddedMemoryBytes)
    assertEquals(60000L, conf.embeddedIdleTimeoutMs)
    assertEquals(None, conf.embeddedBinary)
  }

  @Test def `a daemon of a YARN container takes no more than the container has room for`(): Unit = {
    assertEquals(Some(256L << 20), read("spark.master" -> "yarn").embeddedMemoryBytes)
    val key = "spark.lodestone.embedded.memory"
    assertEquals(Some(1L << 30), read("spark.master" -> "yarn", key -> "1g").embeddedMemoryBytes)
    assertEquals(None, read("spark.master" -> "spark://a:7077").embeddedMemoryBytes)
  }

  @Test def `services are a list or a name`(): Unit = {
    assertEquals(
      ServiceSource.Listed(Seq(HostPort("a", 1), HostPort("[::1]", 7337))),
      read("spark.lodestone.services" -> "a:1, [::1]:7337,a:1").services)
    assertEquals(
      ServiceSource.Dns("lodestone.shuffle.svc", 7337),
      read("spark.lodestone.services" -> "dns:lodestone.shuffle.svc:7337").services)
  }

  @Test def `a bad service list is refused with the accepted forms`(): Unit =
    Seq("nohost", "a:0", "a:65536", "a:b", ":7337", "dns:name", "::1:7337", ",").foreach { value =>
      assertEquals(
        s"spark.lodestone.services is '$value', but must be 'host:port,host:port' with at most " +
          "1000 addresses, 'dns:name:port', or unset.",
        refusal("spark.lodestone.services" -> value))
    }

  @Test def `an unknown key is refused with the nearest known one`(): Unit =
    assertEquals(
      "There is no configuration key spark.lodestone.push.maxBlocksize; " +
        "did you mean spark.lodestone.push.maxBlockSize?",
      refusal("spark.lodestone.push.maxBlocksize" -> "1m"))

  @Test def `a number without a unit is refused`(): Unit = {
    assertEquals(
      "spark.lodestone.push.timeout is '3', but must be a time with a unit between 0ms and " +
        "10min, such as 3s.",
      refusal("spark.lodestone.push.timeout" -> "3"))
    assertEquals(
      "spark.lodestone.push.batchSize is '4', but must be a size with a unit between 64k and " +
        "64m, such as 4m.",
      refusal("spark.lodestone.push.batchSize" -> "4"))
    assertEquals(
      "spark.lodestone.embedded.memory is '1', but must be a size with a unit of at least 16m, " +
        "such as 256m, or 'auto'.",
      refusal("spark.lodestone.embedded.memory" -> "1"))
  }

  @Test def `values out of range are refused`(): Unit =
    Seq(
      "replicas" -> "0",
      "replicas" -> "3",
      "replicas" -> "2",
      "push.maxBlockSize" -> "0b",
      "push.maxBlockSize" -> "5m",
      "push.batchSize" -> "65m",
      "push.batchSize" -> "1k",
      "push.memory" -> "1m",
      "push.memory" -> "99999999999999999999g",
      "push.memory" -> "9999999999t",
      "push.timeout" -> "-1s",
      "push.timeout" -> "11min",
      "request.timeout" -> "99ms",
      "lease.ttl" -> "9s",
      "lease.ttl" -> "61min",
      "embedded.memory" -> "15m",
      "embedded.idleTimeout" -> "999ms").foreach { case (key, value) =>
      val message = refusal(s"spark.lodestone.$key" -> value)
      assertTrue(message.startsWith(s"spark.lodestone.$key is '$value', but must be "), message)
    }

  @Test def `a value that another key does not allow is refused with the name of that key`()
      : Unit = {
    assertEquals(
      "spark.lodestone.push.maxBlockSize is '5m', but must be at most " +
        "spark.lodestone.push.batchSize (4m), since a block is never cut.",
      refusal("spark.lodestone.push.maxBlockSize" -> "5m"))
    assertEquals(
      "spark.lodestone.push.memory is '8m', but must be at least " +
        "spark.lodestone.push.batchSize (16m), since a request must fit.",
      refusal("spark.lodestone.push.memory" -> "8m", "spark.lodestone.push.batchSize" -> "16m"))
  }

  @Test def `a mode that does not exist is refused with those that do`(): Unit =
    assertEquals(
      "spark.lodestone.mode is 'Push', but must be 'auto' or 'merge' or 'remote'.",
      refusal("spark.lodestone.mode" -> "Push"))

  @Test def `values may have blanks around them and capital letters`(): Unit = {
    val conf = read(
      "spark.lodestone.mode" -> " Remote ",
      "spark.lodestone.push.memory" -> "1G ",
      "spark.lodestone.request.timeout" -> " 2MIN")
    assertEquals(Mode.Remote, conf.mode)
    assertEquals((1L << 30, 120000L), (conf.pushMemoryBytes, conf.requestTimeoutMs))
  }

  @Test def `a value may refer to another key`(): Unit =
    assertEquals(
      2L << 20,
      read("spark.my.size" -> "2m", "spark.lodestone.push.batchSize" -> "${spark.my.size}")
        .pushBatchSizeBytes)

  @Test def `rows are encoded unless the key says no, and other values are refused`(): Unit = {
    assertFalse(read("spark.lodestone.encodedRows" -> " False").encodedRows)
    assertTrue(read("spark.lodestone.encodedRows" -> "TRUE").encodedRows)
    assertEquals(
      "spark.lodestone.encodedRows is 'no', but must be 'true' or 'false'.",
      refusal("spark.lodestone.encodedRows" -> "no"))
  }

  @Test def `replicas are for remote shuffles`(): Unit = {
    assertEquals(
      2,
      read("spark.lodestone.mode" -> "remote", "spark.lodestone.replicas" -> "2").replicas)
    assertEquals(
      "spark.lodestone.replicas is '2', but must be 1 unless spark.lodestone.mode is remote.",
      refusal("spark.lodestone.mode" -> "merge", "spark.lodestone.replicas" -> "2"))
  }

  @Test def `keys of others are left alone`(): Unit =
    assertDefaults(read("spark.lodestones" -> "x", "spark.shuffle.compress" -> "false"))

  @Test def `the table in the documentation is the code`(): Unit = {
    val file = Paths.get(System.getProperty("lodestone.vectors"), "../../docs/configuration.md")
    val text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8)
    val rows = text.split("\n").toSeq.filter(_.startsWith("| `spark.lodestone."))
    val expected = LodestoneConf.keys.map { key =>
      val default = Some(key.defaultValueString).filter(_.nonEmpty).fold("(unset)")(d => s"`$d`")
      s"| `${key.key}` | $default | ${key.doc} |"
    }
    assertEquals(expected, rows)
    assertTrue(LodestoneConf.keys.size <= 15, "STYLE.md allows 15 keys")
  }

  @Test def `a second copy of the jar in the same JVM reads its settings too`(): Unit = {
    def inMode(mode: String) = new SparkConf(false).set("spark.lodestone.mode", mode)
    assertEquals(Mode.Merge, LodestoneConf(inMode("merge")).mode)
    val second = SecondCopy.of(LodestoneConf.getClass.getName)
    val settings = second
      .getMethod("apply", classOf[SparkConf])
      .invoke(second.getField("MODULE$").get(null), inMode("remote"))
    val mode = settings.getClass.getMethod("mode").invoke(settings)
    assertEquals(Mode.Remote.toString, mode.toString)
    assertTrue(mode ne Mode.Remote, "this is the first copy")
    assertEquals(Mode.Merge, LodestoneConf(inMode("merge")).mode)
  }

  @Test def `a session that sets a key too late gets an error from Spark`(): Unit = {
    LodestoneConf(new SparkConf(false))
    val session = SparkSession.builder().config(LocalSpark.conf("late-key")).getOrCreate()
    try {
      val refused = assertThrows(
        classOf[AnalysisException],
        () => session.conf.set(LodestoneConf.ModeKey.key, "remote"))
      assertTrue(refused.getMessage.contains("spark.lodestone.mode"), refused.getMessage)
    } finally {
      session.stop()
    }
  }

  @Test def `a key that only the driver knows does not fail the tasks of an older executor`()
      : Unit = {
    val conf = new SparkConf(false)
      .set("spark.lodestone.push.ahead", "3")
      .set("spark.lodestone.request.timeout", "7s")
    val said = LogCapture.warnings {
      assertEquals(7000L, LodestoneConf.onExecutor(conf).requestTimeoutMs)
    }
    assertEquals(1, said.size, said.toString)
    assertTrue(said.head.contains("spark.lodestone.push.ahead"), said.head)
    assertThrows(classOf[IllegalArgumentException], () => LodestoneConf(conf))
    // The known values must be valid.
    val wrong = new SparkConf(false).set("spark.lodestone.request.timeout", "soon")
    assertThrows(classOf[IllegalArgumentException], () => LodestoneConf.onExecutor(wrong))
    ()
  }
}
