// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.conformance

import java.io.{DataOutputStream, File, FileOutputStream}
import java.nio.ByteBuffer
import java.nio.file.Files
import java.util.concurrent.{CompletableFuture, TimeUnit}
import java.util.zip.Adler32

import scala.util.Random

import org.apache.spark.SparkConf
import org.apache.spark.network.buffer.{ManagedBuffer, NioManagedBuffer}
import org.apache.spark.network.netty.SparkTransportConf
import org.apache.spark.network.server.BlockPushNonFatalFailure
import org.apache.spark.network.server.BlockPushNonFatalFailure.ReturnCode
import org.apache.spark.network.shuffle._
import org.apache.spark.network.shuffle.checksum.Cause
import org.apache.spark.network.shuffle.protocol.{ExecutorShuffleInfo, MergeStatuses}
import org.apache.spark.shuffle.lodestone.DaemonProcess
import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions._
import org.roaringbitmap.RoaringBitmap

/**
 * Spark's own unmodified `ExternalBlockStoreClient` against the daemon: the requests of an executor
 * of plain Spark with an external shuffle service.
 */
class SparkClientSuite {

  private val app = "app-20261121-0001"
  private val mergerId = "shuffle-push-merger"
  private val random = new Random(7)
  private var root: File = _
  private var daemon: DaemonProcess = _
  private var client: ExternalBlockStoreClient = _

  private def localDirs: Array[String] =
    Array("a", "b").map(disk => new File(root, s"$disk/blockmgr-1").getPath)

  @BeforeEach def start(): Unit = {
    root = Files.createTempDirectory("lodestone-conformance").toFile
    localDirs.foreach(dir => assertTrue(new File(dir).mkdirs()))
    daemon = DaemonProcess.start(new File(root, "service"))
    val conf = SparkTransportConf.fromSparkConf(new SparkConf(), "shuffle", 1)
    client = new ExternalBlockStoreClient(conf, null, false, 5000)
    client.init(app)
    client.setAppAttemptId("1")
    register("1", mergeDirs = true)
  }

  @AfterEach def stop(): Unit = {
    client.close()
    daemon.stop()
  }

  @Test def `blocks pushed by Spark's client come back whole, as the chunks the meta promised`()
      : Unit = {
    val blocks = (0 until 20).map(map => map -> bytes(200 * 1024 + map)).toMap
    push(shuffle = 3, reduce = 5, blocks)
    val statuses = finalizeMerge(3)
    assertEquals(Seq(5), statuses.reduceIds.toSeq)
    assertEquals(20, statuses.bitmaps.head.getCardinality)
    assertEquals(blocks.values.map(_.length.toLong).sum, statuses.sizes.head)

    val bitmaps = mergedMaps(3, 5)
    assertTrue(bitmaps.length > 1, "4 MB in chunks of 2 MiB are more than one chunk")
    val chunks = fetch(mergerId, bitmaps.indices.map(i => s"shuffleChunk_3_0_5_$i"))
    bitmaps.zip(chunks).foreach { case (bitmap, chunk) =>
      val maps = bitmap.toArray.toSeq
      assertEquals(maps.map(blocks(_).length).sum, chunk.length)
      assertTrue(
        maps.permutationsContain(chunk, blocks),
        s"the chunk of maps $maps is not made of their blocks")
    }
  }

  @Test def `executors on the daemon's host find the merged files where Spark looks for them`()
      : Unit = {
    val block = bytes(3000)
    push(shuffle = 1, reduce = 0, Map(4 -> block))
    finalizeMerge(1)
    val dirs = hostLocalDirs(mergerId)
    assertEquals(
      Array("a", "b").map(disk => new File(root, s"$disk/merge_manager_1").getPath).toSeq,
      dirs.toSeq)
    def file(suffix: String): File = new File(
      ExecutorDiskUtils.getFilePath(dirs, 64, s"shuffleMerged_${app}_1_0_0.$suffix"))
    assertArrayEquals(block, Files.readAllBytes(file("data").toPath))
    val index = ByteBuffer.wrap(Files.readAllBytes(file("index").toPath))
    assertEquals(Seq(0L, 3000L), Seq(index.getLong(), index.getLong()))
    assertTrue(file("meta").length() > 0)
  }

  @Test def `a push after finalize is refused as too late and the connection lives on`(): Unit = {
    push(shuffle = 2, reduce = 0, Map(0 -> bytes(10)))
    finalizeMerge(2)
    val failure = assertThrows(
      classOf[java.util.concurrent.ExecutionException],
      () => push(shuffle = 2, reduce = 0, Map(1 -> bytes(10))))
    failure.getCause match {
      case refused: BlockPushNonFatalFailure =>
        assertEquals(ReturnCode.TOO_LATE_BLOCK_PUSH, refused.getReturnCode)
      case other => fail(other)
    }
    assertEquals(1, mergedMaps(2, 0).length)
  }

  @Test def `the meta of a partition that was never pushed is an error and not empty`(): Unit = {
    push(shuffle = 6, reduce = 0, Map(0 -> bytes(10)))
    finalizeMerge(6)
    assertThrows(classOf[java.util.concurrent.ExecutionException], () => mergedMaps(6, 1))
    assertThrows(classOf[java.util.concurrent.ExecutionException], () => mergedMaps(99, 0))
  }

  @Test def `removed merged data is gone from the wire and from the disk`(): Unit = {
    push(shuffle = 8, reduce = 0, Map(0 -> bytes(10)))
    finalizeMerge(8)
    assertTrue(client.removeShuffleMerge(daemon.host, daemon.port, 8, -1))
    // One-way: the service handles it before the next request on the same connection.
    assertThrows(classOf[java.util.concurrent.ExecutionException], () => mergedMaps(8, 0))
    awaitNoFiles("_8_")
  }

  @Test def `original blocks are served from an executor's files, one by one and in batches`()
      : Unit = {
    val parts = Seq(bytes(100), bytes(0), bytes(3), bytes(5000))
    writeOriginal(shuffle = 4, mapId = 17L, parts)
    val single = fetch("1", Seq("shuffle_4_17_0", "shuffle_4_17_3"))
    assertArrayEquals(parts.head, single.head)
    assertArrayEquals(parts(3), single(1))
    val batch = fetch("1", Seq("shuffle_4_17_0_4"))
    assertArrayEquals(parts.reduce(_ ++ _), batch.head)
  }

  @Test def `an executor that never registered is refused`(): Unit = {
    val failure = assertThrows(
      classOf[java.util.concurrent.ExecutionException],
      () => fetch("99", Seq("shuffle_4_17_0")))
    assertTrue(failure.getMessage.contains("not registered"), failure.getMessage)
  }

  @Test def `the cause of a corruption is found: disk, network, or none`(): Unit = {
    val block = bytes(1000)
    writeOriginal(shuffle = 9, mapId = 3L, Seq(block))
    val adler = new Adler32
    adler.update(block, 0, block.length)
    val checksums = new File(
      ExecutorDiskUtils.getFilePath(localDirs, 64, "shuffle_9_3_0.checksum.ADLER32"))
    writeLongs(checksums, Seq(adler.getValue))
    def diagnose(seen: Long): Cause =
      client.diagnoseCorruption(daemon.host, daemon.port, "1", 9, 3L, 0, seen, "ADLER32")
    assertEquals(Cause.CHECKSUM_VERIFY_PASS, diagnose(adler.getValue))
    assertEquals(Cause.NETWORK_ISSUE, diagnose(adler.getValue + 1))
    writeLongs(checksums, Seq(adler.getValue + 5))
    assertEquals(Cause.DISK_ISSUE, diagnose(adler.getValue))
  }

  private def register(execId: String, mergeDirs: Boolean): Unit = {
    // Spark's BlockManager sends these two extra braces.
    val meta = if (mergeDirs) """:{"mergeDir":"merge_manager_1","attemptId":"1"}}}""" else ""
    val info = new ExecutorShuffleInfo(
      localDirs,
      64,
      "org.apache.spark.shuffle.sort.SortShuffleManager" + meta)
    client.registerWithShuffleServer(daemon.host, daemon.port, execId, info)
  }

  private def push(shuffle: Int, reduce: Int, blocks: Map[Int, Array[Byte]]): Unit = {
    val done = blocks.keys.map(map => map -> new CompletableFuture[Unit]()).toMap
    val listener = new BlockPushingListener {
      override def onBlockPushSuccess(blockId: String, data: ManagedBuffer): Unit =
        done(blockId.split('_')(3).toInt).complete(())
      override def onBlockPushFailure(blockId: String, failure: Throwable): Unit =
        done(blockId.split('_')(3).toInt).completeExceptionally(failure)
    }
    val (ids, buffers) = blocks.toSeq.map { case (map, data) =>
      (s"shufflePush_${shuffle}_0_${map}_$reduce", new NioManagedBuffer(ByteBuffer.wrap(data)))
    }.unzip
    client.pushBlocks(
      daemon.host,
      daemon.port,
      ids.toArray,
      buffers.toArray[ManagedBuffer],
      listener)
    done.values.foreach(_.get(20, TimeUnit.SECONDS))
  }

  private def finalizeMerge(shuffle: Int): MergeStatuses = {
    val done = new CompletableFuture[MergeStatuses]()
    client.finalizeShuffleMerge(
      daemon.host,
      daemon.port,
      shuffle,
      0,
      new MergeFinalizerListener {
        override def onShuffleMergeSuccess(statuses: MergeStatuses): Unit = {
          done.complete(statuses)
        }
        override def onShuffleMergeFailure(failure: Throwable): Unit = {
          done.completeExceptionally(failure)
        }
      })
    done.get(20, TimeUnit.SECONDS)
  }

  /** The maps in each chunk. */
  private def mergedMaps(shuffle: Int, reduce: Int): Array[RoaringBitmap] = {
    val done = new CompletableFuture[Array[RoaringBitmap]]()
    val listener = new MergedBlocksMetaListener {
      // The buffer is Spark's again when this returns.
      override def onSuccess(s: Int, m: Int, r: Int, meta: MergedBlockMeta): Unit = {
        done.complete(meta.readChunkBitmaps())
      }
      override def onFailure(s: Int, m: Int, r: Int, failure: Throwable): Unit = {
        done.completeExceptionally(failure)
      }
    }
    client.getMergedBlockMeta(daemon.host, daemon.port, shuffle, 0, reduce, listener)
    done.get(20, TimeUnit.SECONDS)
  }

  private def fetch(execId: String, blockIds: Seq[String]): Seq[Array[Byte]] = {
    val done = blockIds.map(id => id -> new CompletableFuture[Array[Byte]]()).toMap
    val listener = new BlockFetchingListener {
      override def onBlockFetchSuccess(blockId: String, data: ManagedBuffer): Unit = {
        val copy = new Array[Byte](data.size().toInt)
        data.nioByteBuffer().get(copy)
        done(blockId).complete(copy)
      }
      override def onBlockFetchFailure(blockId: String, failure: Throwable): Unit = {
        done(blockId).completeExceptionally(failure)
      }
    }
    client.fetchBlocks(daemon.host, daemon.port, execId, blockIds.toArray, listener, null)
    blockIds.map(id => done(id).get(20, TimeUnit.SECONDS))
  }

  private def hostLocalDirs(execId: String): Array[String] = {
    val done = new CompletableFuture[java.util.Map[String, Array[String]]]()
    client.getHostLocalDirs(daemon.host, daemon.port, Array(execId), done)
    done.get(20, TimeUnit.SECONDS).get(execId)
  }

  private def writeOriginal(shuffle: Int, mapId: Long, parts: Seq[Array[Byte]]): Unit = {
    def file(suffix: String): File = new File(
      ExecutorDiskUtils.getFilePath(localDirs, 64, s"shuffle_${shuffle}_${mapId}_0.$suffix"))
    assertTrue(file("data").getParentFile.mkdirs() || file("data").getParentFile.isDirectory)
    Files.write(file("data").toPath, parts.reduce(_ ++ _))
    writeLongs(file("index"), parts.scanLeft(0L)(_ + _.length))
  }

  private def writeLongs(file: File, values: Seq[Long]): Unit = {
    assertTrue(file.getParentFile.mkdirs() || file.getParentFile.isDirectory)
    val out = new DataOutputStream(new FileOutputStream(file))
    try values.foreach(out.writeLong)
    finally out.close()
  }

  private def bytes(length: Int): Array[Byte] = {
    val data = new Array[Byte](length)
    random.nextBytes(data)
    data
  }

  /** The service removes files after it has answered. Each look follows an answer of it. */
  private def awaitNoFiles(named: String): Unit = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30)
    def left: Seq[File] = filesBelow(root).filter(_.getName.contains(named))
    while (left.nonEmpty) {
      assertTrue(System.nanoTime() < end, s"files of removed data stay: $left")
      assertEquals(2, hostLocalDirs("1").length)
    }
  }

  private def filesBelow(file: File): Seq[File] =
    Option(file.listFiles()).fold(Seq(file))(_.toSeq.flatMap(filesBelow))

  private implicit class Blocks(maps: Seq[Int]) {

    /** True if `chunk` has the whole blocks of `maps` in any order. */
    def permutationsContain(chunk: Array[Byte], blocks: Map[Int, Array[Byte]]): Boolean = {
      def rest(left: Set[Int], at: Int): Boolean = left.isEmpty ||
        left.exists { map =>
          val block = blocks(map)
          at + block.length <= chunk.length &&
          java.util.Arrays.equals(chunk.slice(at, at + block.length), block) &&
          rest(left - map, at + block.length)
        }
      rest(maps.toSet, 0)
    }
  }
}
