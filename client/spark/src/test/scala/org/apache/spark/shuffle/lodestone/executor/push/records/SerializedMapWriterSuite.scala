// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{DataInputStream, File, FileInputStream}
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.zip.Adler32

import scala.collection.mutable

import org.junit.jupiter.api.{AfterEach, BeforeEach, Tag, Test}
import org.junit.jupiter.api.Assertions._
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.{HashPartitioner, ShuffleDependency, SparkContext}
import org.apache.spark.{SparkEnv, SparkException, TaskContext}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.{MemoryConsumer, MemoryMode}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.shuffle.lodestone.{DaemonProcess, LocalSpark, LodestoneShuffleManager}
import org.apache.spark.shuffle.lodestone.plan.LocalHandle

/** Spark reads Lodestone's map outputs, and no other file remains. */
@Tag("seldom")
final class SerializedMapWriterSuite {
  @TempDir var directory: Path = _

  private var daemon: DaemonProcess = _
  private val metrics = new ConcurrentLinkedQueue[TaskMetrics]()
  // Each reads many partitions, one after another: a task for each would take most of the time.
  private val readers = 8

  @BeforeEach def startDaemon(): Unit =
    daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))

  @AfterEach def stopDaemon(): Unit = daemon.stop()

  private def withSpark[T](lodestone: Boolean, settings: (String, String)*)(
      job: SparkContext => T): T = {
    val conf = LocalSpark.conf("map-writer")
      .set("spark.local.dir", new File(directory.toFile, "local").getPath)
      .set("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .setAll(settings)
    if (lodestone) {
      conf.set("spark.shuffle.manager", classOf[LodestoneShuffleManager].getName)
      conf.setIfMissing("spark.lodestone.mode", "merge")
      conf.setIfMissing("spark.lodestone.services", daemon.hostPort)
    }
    val spark = new SparkContext(conf)
    spark.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        Option(end.taskMetrics).foreach(metrics.add)
    })
    try job(spark)
    finally spark.stop()
  }

  private def rows(spark: SparkContext, partitions: Int): RDD[(Int, String)] =
    spark
      .parallelize(0 until 20000, 6)
      .map(n => (n * 31 % 5003, s"row $n " + "x" * (n % 50)))
      .partitionBy(new HashPartitioner(partitions))

  private def files(below: File): Seq[File] =
    Option(below.listFiles()).toSeq.flatten.flatMap { file =>
      if (file.isDirectory) files(file) else Seq(file)
    }

  private def named(part: String): Seq[File] =
    files(new File(directory.toFile, "local")).filter(_.getName.contains(part))

  private val encrypted = "spark.io.encryption.enabled" -> "true"

  private def assertSame(partitions: Int, settings: (String, String)*): Unit = {
    val job = (spark: SparkContext) =>
      rows(spark, partitions).mapPartitionsWithIndex { (partition, rows) =>
        rows.map { case (key, value) => (partition, key, value) }
      }.coalesce(readers).collect().sorted.toSeq
    // The number of partitions alone decides what plain Spark answers.
    val expected = SerializedMapWriterSuite.plain
      .getOrElseUpdate(partitions, withSpark(lodestone = false)(job))
    assertEquals(expected, withSpark(lodestone = true, settings: _*)(job), settings.toString)
  }

  @Test def `outputs equal those of plain Spark for few and for many partitions`(): Unit =
    Seq(1, 7, 200, 201, 3000).foreach(assertSame(_))

  @Test def `outputs equal those of plain Spark with each codec`(): Unit = {
    Seq("lz4", "zstd", "snappy", "lzf").foreach { codec =>
      assertSame(300, "spark.io.compression.codec" -> codec)
    }
    assertSame(300, "spark.shuffle.compress" -> "false")
    assertSame(300, encrypted)
    assertSame(300, "spark.shuffle.checksum.enabled" -> "false")
  }

  @Test def `records that do not fit in memory are spilled and the spills are removed`(): Unit = {
    val threshold = "spark.shuffle.spill.numElementsForceSpillThreshold" -> "100"
    assertSame(300, threshold)
    assertSame(300, threshold, encrypted)
    withSpark(lodestone = true, threshold) { spark =>
      metrics.clear()
      rows(spark, 300).count()
      assertEquals(Nil, named("temp_shuffle").map(_.getName))
    }
    val all = metrics.toArray(Array.empty[TaskMetrics])
    assertTrue(all.map(_.diskBytesSpilled).sum > 0)
    assertTrue(all.map(_.memoryBytesSpilled).sum > 0)
    assertEquals(20000L, all.map(_.shuffleWriteMetrics.recordsWritten).sum)
  }

  @Test def `a spill is encrypted if Spark encrypts, and read as it was written`(): Unit = {
    val text = ("nobody but Spark reads this " * 20000).getBytes
    def isOpen(settings: (String, String)*): Boolean = withSpark(lodestone = true, settings: _*) {
      _ =>
        val env = SparkEnv.get
        val file = new LocalSpillFiles(env.blockManager.diskBlockManager, env.serializerManager)
          .create()
        val out = file.write()
        out.write(text)
        out.close()
        val in = file.read()
        assertArrayEquals(text, in.readAllBytes())
        in.close()
        Files.readAllBytes(new File(file.name).toPath).containsSlice(text.take(20))
    }
    assertEquals((true, false), (isOpen(), isOpen(encrypted)))
  }

  @Test def `memory off the heap serves as well`(): Unit =
    assertSame(
      300,
      "spark.memory.offHeap.enabled" -> "true",
      "spark.memory.offHeap.size" -> "64m",
      "spark.shuffle.spill.numElementsForceSpillThreshold" -> "1000")

  @Test def `a task writes its output though others have its memory`(): Unit = {
    val job = (partitions: Int) =>
      (spark: SparkContext) =>
        spark
          .parallelize(0 until 50000, 2)
          .mapPartitions { rows =>
            Hoarder.take()
            rows.map(n => (n * 31 % 5003, s"row $n " + "x" * (n % 50)))
          }
          .partitionBy(new HashPartitioner(partitions))
          .map { case (key, value) => s"$key $value" }
          .collect()
          .sorted
          .toSeq
    val expected = withSpark(lodestone = false)(job(100))
    Seq(100, 300).foreach { partitions =>
      assertEquals(expected, withSpark(lodestone = true)(job(partitions)))
    }
  }

  @Test def `records larger than a page are written`(): Unit = {
    val job = (spark: SparkContext) =>
      spark
        .parallelize(Seq(1, 3 << 20, 5, 70 << 20, 9), 2)
        .map(length => (length, new Array[Byte](length)))
        .partitionBy(new HashPartitioner(500))
        .map { case (length, bytes) => (length, bytes.length) }
        .collect()
        .sorted
        .toSeq
    val kryo = "spark.kryoserializer.buffer.max" -> "256m"
    val expected = withSpark(lodestone = false, kryo)(job)
    assertEquals(expected, withSpark(lodestone = true, kryo)(job))
  }

  @Test def `the checksums beside the data are those of its blocks`(): Unit =
    withSpark(lodestone = true) { spark =>
      val shuffled = rows(spark, 300)
      shuffled.count()
      val data = named(".data").filter(_.getName.startsWith("shuffle_0_"))
      assertEquals(6, data.size)
      data.foreach { file =>
        val base = file.getPath.stripSuffix(".data")
        val name = new File(base).getName
        val offsets = longs(named(s"$name.index").head, 301)
        val checksums = longs(named(s"$name.checksum.ADLER32").head, 300)
        val bytes = Files.readAllBytes(file.toPath)
        (0 until 300).foreach { partition =>
          val adler = new Adler32
          val start = offsets(partition).toInt
          val length = offsets(partition + 1).toInt - start
          adler.update(bytes, start, length)
          if (length > 0) assertEquals(adler.getValue, checksums(partition), s"$name, $partition")
        }
      }
      assertTrue(shuffled.partitions.length == 300)
    }

  private def longs(file: File, count: Int): Seq[Long] = {
    val in = new DataInputStream(new FileInputStream(file))
    try Seq.fill(count)(in.readLong())
    finally in.close()
  }

  @Test def `a map task that fails leaves no file behind`(): Unit =
    withSpark(lodestone = true, "spark.shuffle.spill.numElementsForceSpillThreshold" -> "100") {
      spark =>
        // One task: a second one may still be running, with its files, when the job has failed.
        val failing = spark
          .parallelize(0 until 2500, 1)
          .map(n => if (n == 2400) throw new IllegalStateException("on purpose") else (n, n))
          .partitionBy(new HashPartitioner(300))
        assertThrows(classOf[SparkException], () => { failing.count(); () })
        assertEquals(Nil, named("shuffle_").map(_.getName))
    }

  @Test def `in mode auto a shuffle of few blocks is written here too and read by Spark`(): Unit = {
    val auto = Seq("spark.lodestone.mode" -> "auto", "spark.lodestone.services" -> "127.0.0.1:1")
    Seq(1, 7, 30).foreach(assertSame(_, auto: _*))
    withSpark(lodestone = true, auto: _*) { spark =>
      metrics.clear()
      val shuffled = rows(spark, 30)
      assertEquals(20000L, shuffled.count())
      assertTrue(shuffled.dependencies.exists {
        case shuffle: ShuffleDependency[_, _, _] =>
          shuffle.shuffleHandle.isInstanceOf[LocalHandle[_, _, _]]
        case _ => false
      })
      assertTrue(named("shuffle_0_").nonEmpty)
      spark.env.shuffleManager.unregisterShuffle(0)
      assertEquals(Nil, named("shuffle_0_").map(_.getName))
    }
    val held = metrics.toArray(Array.empty[TaskMetrics]).map(_.peakExecutionMemory)
    assertTrue(held.exists(_ > 0), "Spark's writer of so few partitions holds no memory")
  }

  @Test def `files are removed with their shuffle`(): Unit = withSpark(lodestone = true) { spark =>
    rows(spark, 300).count()
    assertTrue(named("shuffle_0_").nonEmpty)
    spark.env.shuffleManager.unregisterShuffle(0)
    assertEquals(Nil, named("shuffle_0_").map(_.getName))
  }
}

private object SerializedMapWriterSuite {

  /** Plain Spark's rows for each number of partitions. */
  private val plain = mutable.HashMap.empty[Int, Seq[(Int, Int, String)]]
}

/** Takes all memory of its task, and frees none. */
private object Hoarder {
  def take(): Unit = {
    val memory = TaskContext.get().taskMemoryManager()
    val hoarder = new MemoryConsumer(memory, MemoryMode.ON_HEAP) {
      override def spill(size: Long, trigger: MemoryConsumer): Long = 0L
    }
    var taken = 0L
    var more = 1L
    while (more > 0) {
      more = hoarder.acquireMemory(1L << 40)
      taken += more
    }
    TaskContext.get().addTaskCompletionListener[Unit](_ => hoarder.freeMemory(taken))
    ()
  }
}
