// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{File, RandomAccessFile}
import java.nio.ByteBuffer
import java.nio.file.Path
import java.util.{Properties, SplittableRandom}

import scala.collection.mutable.ArrayBuffer
import scala.concurrent.{Await, ExecutionContext, Future}
import scala.concurrent.duration.DurationInt
import scala.jdk.CollectionConverters._

import org.junit.jupiter.api._
import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows, assertTrue}
import org.junit.jupiter.api.TestInstance.Lifecycle
import org.junit.jupiter.api.io.TempDir

import org.apache.spark._
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.shuffle.IndexShuffleBlockResolver
import org.apache.spark.shuffle.lodestone.LocalSpark
import org.apache.spark.shuffle.lodestone.engine.FakeNative
import org.apache.spark.storage.ShuffleBlockId

/** What becomes of frames that the executor keeps, in any order and after any failure. */
@TestInstance(Lifecycle.PER_CLASS)
final class LocalFramePushSuite {
  private val partitions = 10
  private var spark: SparkContext = _
  private var directory: File = _

  @BeforeAll def start(@TempDir directory: Path): Unit = {
    this.directory = directory.toFile
    val conf = LocalSpark.conf("local-frames", master = "local[1]")
    spark = new SparkContext(conf.set("spark.local.dir", directory.toString))
  }

  @AfterAll def stop(): Unit = spark.stop()

  private def resolver: IndexShuffleBlockResolver =
    SparkEnv.get.shuffleManager.shuffleBlockResolver.asInstanceOf[IndexShuffleBlockResolver]

  /** Files with frames. */
  private def files: Seq[File] = {
    def in(folder: File): Seq[File] = folder.listFiles.toSeq.flatMap { file =>
      if (file.isDirectory) in(file) else Seq(file)
    }
    in(directory).filter(_.getName.contains("shuffle_"))
  }

  /** The attempt of a map, and its task. */
  private final class Attempt(
      mapId: Long,
      mostFrames: Int = FrameFile.MostFrames,
      of: Option[ShuffleDependency[Int, Int, Int]] = None,
      by: IndexShuffleBlockResolver = resolver) {
    private val memory = new TaskMemoryManager(UnifiedMemoryManager(new SparkConf(false), 1), 0)
    val context = new TaskContextImpl(0, 0, 0, mapId, 0, 2, memory, new Properties, null)
    private val dependency = of.getOrElse {
      val rows = spark.parallelize(0 until 2, 2).map(x => (x, x))
      new ShuffleDependency[Int, Int, Int](rows, new HashPartitioner(partitions))
    }
    val metrics = context.taskMetrics.shuffleWriteMetrics
    val push = new LocalFramePush(dependency, mapId, by, context, metrics, mostFrames)

    def block(partition: Int): Array[Byte] = {
      val data = resolver.getBlockData(ShuffleBlockId(dependency.shuffleId, mapId, partition))
      // Readers never ask for an empty block, and it may have no file.
      if (data.size() == 0) Array.emptyByteArray
      else {
        val in = data.createInputStream()
        try in.readAllBytes()
        finally in.close()
      }
    }

    /** Another attempt with the same map id. */
    def again(): Attempt = new Attempt(mapId, mostFrames, Some(dependency))

    def remove(): Unit = resolver.removeDataByMap(dependency.shuffleId, mapId)

    def end(): Unit = context.markTaskCompleted(None)
  }

  /** The content of a frame says which one it is. */
  private def frame(number: Int, length: Int): Array[Byte] = {
    val bytes = new Array[Byte](length)
    new SplittableRandom(number.toLong).nextBytes(bytes)
    ByteBuffer.wrap(bytes).putInt(0, number)
    bytes
  }

  @Test def `a block has its partition's frames in the order in which they came`(): Unit = {
    val seed = System.nanoTime()
    println(s"frames of seed $seed")
    // Few frames fit into memory in the second case, and in the third there are fewer of them.
    for ((mostFrames, frames) <- Seq((FrameFile.MostFrames, 5000), (64, 5000), (64, 64))) {
      val random = new SplittableRandom(seed)
      val attempt = new Attempt(mapId = 100L + frames + mostFrames % 99, mostFrames)
      val expected = Array.fill(partitions)(ArrayBuffer.empty[Byte])
      for (i <- 0 until frames) {
        // The last partition stays empty.
        val (partition, bytes) = (random.nextInt(partitions - 1), frame(i, 4 + random.nextInt(99)))
        expected(partition) ++= bytes
        if (i % 2 == 0) attempt.push.push(partition, ByteBuffer.wrap(bytes))
        else attempt.push.push(partition, bytes, 0, bytes.length)
        java.util.Arrays.fill(bytes, 0.toByte)
      }
      val status = attempt.push.commit()
      attempt.end()
      for (partition <- 0 until partitions) {
        assertEquals(expected(partition).toSeq, attempt.block(partition).toSeq, s"$partition")
        assertEquals(expected(partition).nonEmpty, status.getSizeForBlock(partition) > 0)
      }
      assertEquals(expected.map(_.size.toLong).toSeq, attempt.push.partitionLengths().toSeq)
      assertEquals(expected.map(_.size.toLong).sum, attempt.metrics.bytesWritten)
      assertEquals(2, files.size, s"$files")
      attempt.remove()
    }
  }

  @Test def `an attempt whose file Spark does not take reports the blocks that are there`()
      : Unit = {
    val first = new Attempt(mapId = 7)
    first.push.push(0, ByteBuffer.wrap(frame(1, 40)))
    first.push.commit()
    val second = first.again()
    second.push.push(1, ByteBuffer.wrap(frame(2, 50)))
    val status = second.push.commit()
    assertEquals(frame(1, 40).toSeq, second.block(0).toSeq)
    assertTrue(status.getSizeForBlock(0) > 0)
    assertEquals(0, status.getSizeForBlock(1))
    // The task takes them for the lengths of the blocks in the file.
    assertEquals(40L +: Seq.fill(partitions - 1)(0L), second.push.partitionLengths().toSeq)
    first.remove()
  }

  @Test def `an output whose index file cannot be seen is committed and stays`(): Unit = {
    val blind = new BlindResolver(spark.conf)
    val attempt = new Attempt(mapId = 13, by = blind)
    attempt.push.push(0, ByteBuffer.wrap(frame(1, 40)))
    assertTrue(attempt.push.commit().getSizeForBlock(0) > 0)
    blind.sees = true
    attempt.push.abort()
    assertEquals(frame(1, 40).toSeq, attempt.block(0).toSeq)
    attempt.remove()
    // The disk fails later.
    val other = new Attempt(mapId = 14, by = blind)
    blind.goesBlind = false
    other.push.push(0, ByteBuffer.wrap(frame(2, 40)))
    other.push.commit()
    blind.sees = false
    other.push.abort()
    blind.sees = true
    assertEquals(frame(2, 40).toSeq, other.block(0).toSeq)
    other.remove()
  }

  @Test def `an index file of another attempt with the same inode is not the own one`(): Unit = {
    val first = new Attempt(mapId = 15)
    first.push.push(0, ByteBuffer.wrap(frame(1, 40)))
    first.push.commit()
    val index = files.filter(_.getName.endsWith(".index"))
    assertEquals(1, index.size)
    // As if it were written later.
    assertTrue(index.head.setLastModified(index.head.lastModified + 60000))
    first.push.abort()
    assertEquals(frame(1, 40).toSeq, first.block(0).toSeq)
    first.remove()
  }

  @Test def `the end of an attempt leaves the output that another attempt has committed`(): Unit =
    // A map without rows has no frame.
    for (frames <- Seq(Seq(frame(1, 40), frame(2, 50)), Seq(Array.emptyByteArray, frame(2, 50)))) {
      val first = new Attempt(mapId = 11)
      val second = first.again()
      for ((attempt, bytes) <- Seq(first, second).zip(frames)) {
        attempt.push.push(0, ByteBuffer.wrap(bytes))
        attempt.push.commit()
      }
      val committed = files.toSet
      second.push.abort()
      assertEquals(committed, files.toSet)
      assertEquals(frames.head.toSeq, first.block(0).toSeq)
      first.push.abort()
      assertEquals(Nil, files)
      // The first one has nothing there any more.
      val third = first.again()
      third.push.push(0, ByteBuffer.wrap(frame(3, 60)))
      third.push.commit()
      first.push.abort()
      assertEquals(frame(3, 60).toSeq, third.block(0).toSeq)
      third.remove()
    }

  @Test def `a late frame of one attempt leaves the output of another`(): Unit = {
    val first = new Attempt(mapId = 12)
    val second = first.again()
    for ((attempt, number) <- Seq(first -> 1, second -> 2)) {
      attempt.push.push(0, ByteBuffer.wrap(frame(number, 40)))
      attempt.push.commit()
    }
    val thrown = classOf[IllegalStateException]
    assertThrows(thrown, () => second.push.push(1, ByteBuffer.wrap(frame(3, 10))))
    assertEquals(frame(1, 40).toSeq, first.block(0).toSeq)
    first.remove()
  }

  @Test def `of two attempts that commit together the one that Spark keeps can remove its output`()
      : Unit =
    for (round <- 0 until 50) {
      val first = new Attempt(mapId = 200L + round)
      val both = Seq(first, first.again())
      for ((attempt, number) <- both.zipWithIndex)
        attempt.push.push(0, ByteBuffer.wrap(frame(number, 40)))
      val commits = both.map(attempt => Future(attempt.push.commit())(ExecutionContext.global))
      commits.foreach(Await.result(_, 60.seconds))
      val kept = ByteBuffer.wrap(first.block(0)).getInt(0)
      both(1 - kept).push.abort()
      assertEquals(frame(kept, 40).toSeq, first.block(0).toSeq)
      both(kept).push.abort()
      assertEquals(Nil, files)
    }

  @Test def `threads of native code push a large frame beside small ones`(): Unit = {
    val attempt = new Attempt(mapId = 1)
    val sizes = 4 +: (5 << 20) +: Seq.fill(500)(300)
    val pushed = sizes.zipWithIndex.map { case (size, i) =>
      new FakeNative.Frame(i % partitions, frame(i, size))
    }
    FakeNative.pushAll(attempt.push, pushed.iterator.asJava, 4, 7)
    attempt.push.commit()
    for (partition <- 0 until partitions) {
      val in = ByteBuffer.wrap(attempt.block(partition))
      val found = ArrayBuffer.empty[Int]
      while (in.hasRemaining) {
        val number = in.getInt(in.position())
        val bytes = new Array[Byte](sizes(number))
        in.get(bytes)
        assertTrue(java.util.Arrays.equals(frame(number, sizes(number)), bytes), s"$number")
        found += number
      }
      assertEquals(sizes.indices.filter(_ % partitions == partition), found.sorted)
    }
    attempt.remove()
  }

  @Test def `an output without a frame has no file of data`(): Unit = {
    val attempt = new Attempt(mapId = 2)
    attempt.push.push(3, new Array[Byte](5), 2, 0)
    attempt.push.commit()
    assertEquals(0, attempt.block(3).length)
    assertEquals(Nil, files.filter(_.getName.endsWith(".data")))
    attempt.remove()
  }

  @Test def `after a call that has failed nothing is committed`(): Unit = {
    val attempt = new Attempt(mapId = 3)
    attempt.push.push(1, frame(1, 10), 0, 10)
    val wrong = classOf[IllegalArgumentException]
    assertThrows(wrong, () => attempt.push.push(partitions, frame(2, 10), 0, 10))
    assertThrows(classOf[IllegalStateException], () => { attempt.push.commit(); () })
    attempt.end()
    assertEquals(Nil, files)
  }

  @Test def `frames that the disk has lost are not committed`(): Unit = {
    val attempt = new Attempt(mapId = 4)
    attempt.push.push(1, frame(1, 1000), 0, 1000)
    val shorter = new RandomAccessFile(files.head, "rw")
    try shorter.setLength(500)
    finally shorter.close()
    assertThrows(classOf[java.io.EOFException], () => { attempt.push.commit(); () })
    attempt.end()
    assertEquals(Nil, files)
  }

  @Test def `a killed task commits nothing and says that it was killed`(): Unit = {
    val attempt = new Attempt(mapId = 5)
    attempt.push.push(1, frame(1, 10), 0, 10)
    attempt.context.markInterrupted("on purpose")
    assertThrows(classOf[TaskKilledException], () => { attempt.push.commit(); () })
    val cause = attempt.push.causeOf(new RuntimeException("native code failed"))
    assertEquals(classOf[TaskKilledException], cause.getClass)
    attempt.end()
    assertEquals(Nil, files)
  }

  @Test def `an abort removes the output also after its commit`(): Unit = {
    val attempt = new Attempt(mapId = 6)
    attempt.push.push(1, frame(1, 10), 0, 10)
    attempt.push.commit()
    assertEquals(2, files.size)
    attempt.push.abort()
    attempt.push.abort()
    assertEquals(Nil, files)
    val thrown = classOf[IllegalStateException]
    assertThrows(thrown, () => attempt.push.push(1, frame(1, 10), 0, 10))
    assertThrows(thrown, () => { attempt.push.reserve(10); () })
    ()
  }

  @Test def `a frame that comes after the commit takes the output away`(): Unit = {
    val attempt = new Attempt(mapId = 7)
    attempt.push.push(1, frame(1, 10), 0, 10)
    attempt.push.commit()
    val thrown = classOf[IllegalStateException]
    assertThrows(thrown, () => attempt.push.push(1, frame(2, 10), 0, 10))
    assertEquals(Nil, files)
  }

  @Test def `the end of its task removes the frames of an attempt without a commit`(): Unit = {
    val attempt = new Attempt(mapId = 8)
    attempt.push.push(1, frame(1, 10), 0, 10)
    assertEquals(1, files.size)
    attempt.end()
    assertEquals(Nil, files)
  }
}

/** Spark's own, on a disk that does not find index files from the end of a commit on. */
private final class BlindResolver(conf: SparkConf) extends IndexShuffleBlockResolver(conf) {
  var sees = true
  var goesBlind = true

  override def getIndexFile(shuffleId: Int, mapId: Long, dirs: Option[Array[String]]): File = {
    val file = super.getIndexFile(shuffleId, mapId, dirs)
    // Below the program of the JVM, which is no directory.
    if (sees) file else new File(new File(System.getProperty("java.home"), "bin/java"), "index")
  }

  override def writeMetadataFileAndCommit(
      shuffleId: Int,
      mapId: Long,
      lengths: Array[Long],
      checksums: Array[Long],
      dataTmp: File): Unit = {
    super.writeMetadataFileAndCommit(shuffleId, mapId, lengths, checksums, dataTmp)
    sees = !goesBlind
  }
}
