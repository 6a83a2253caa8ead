// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.remote

import java.io.{ByteArrayInputStream, FilterOutputStream, OutputStream}
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.junit.jupiter.api.{AfterEach, BeforeEach, Test}
import org.junit.jupiter.api.Assertions.{assertEquals, assertNotNull, assertThrows, assertTrue}

import org.apache.spark.{SparkConf, TaskKilledException}
import org.apache.spark.io.LZ4CompressionCodec
import org.apache.spark.memory.{TaskMemoryManager, UnifiedMemoryManager}
import org.apache.spark.serializer.{JavaSerializer, SerializerManager}
import org.apache.spark.shuffle.lodestone.executor.link.PlanCache
import org.apache.spark.shuffle.lodestone.executor.push.{MapAttempt, PushTarget, SegmentBuffers}
import org.apache.spark.shuffle.lodestone.plan.ShufflePlan
import org.apache.spark.shuffle.lodestone.transport.{RetryPolicy, ServiceClient}
import org.apache.spark.shuffle.lodestone.wire.{Application, Status}

/**
 * Records in streams that stay open: what becomes of the streams, and of the bytes that they give.
 */
final class StreamedRecordsSuite {
  private val conf = new SparkConf(false)
    .set("spark.io.compression.codec", classOf[CountedCodec].getName)
  private val serializer = new JavaSerializer(conf).newInstance()
  private val streams = new SerializerManager(new JavaSerializer(conf), conf)
  private val partitions = 8

  private val bufferBytes = 1 << 20
  private val buffers = new SegmentBuffers(bufferBytes, limitBytes = 4L * bufferBytes)
  private val target = new PushTarget((_, batch) => PushTarget.all(Status.Ok, batch))
  private val client = new ServiceClient(Application("app", -1), 10000)
  @volatile private var isKilled = false

  private val memory = new TaskMemoryManager(UnifiedMemoryManager(conf, 1), 0)
  private val segments = {
    val plan = ShufflePlan(0, partitions, replicas = 1, Array(Array(target.location)))
    val once = new RetryPolicy(0, _ => None)
    // No service fails, so nobody asks for another plan.
    val means = PushMeans(client, new PlanCache(null), once, once)
    val alive = () => if (isKilled) throw new TaskKilledException("scripted")
    val push = new RequiredPush(MapAttempt(3, 0, 0, 100), plan, means, alive)
    new SegmentWriter(push, buffers, partitions, memory)
  }
  private val records = new StreamedRecords(serializer, streams, partitions, memory, segments)

  @BeforeEach def reset(): Unit = CountedCodec.open.set(0)

  @AfterEach def close(): Unit = {
    client.close()
    target.close()
  }

  private def addToAll(): Unit = {
    (0 until 3 * partitions).foreach(i => records.add(i % partitions, s"key $i", i))
    assertEquals(partitions, CountedCodec.open.get, "a stream for each partition")
  }

  @Test def `a task that ends early closes its streams`(): Unit = {
    addToAll()
    records.close()
    assertEquals(0, CountedCodec.open.get)
  }

  @Test def `a task that is killed while it waits to push closes its streams`(): Unit = {
    addToAll()
    // Others have all the room.
    (1 to 4).foreach(_ => buffers.reserve(() => ()))
    isKilled = true
    assertThrows(classOf[TaskKilledException], () => records.finish())
    records.close()
    assertEquals(0, CountedCodec.open.get)
    assertEquals(0L, memory.cleanUpAllAllocatedMemory())
  }

  @Test def `a partition that has most of the rows makes no request larger than others are`()
      : Unit = {
    val seed = System.nanoTime()
    val random = new Random(seed)
    val rows = Seq.fill(600) {
      val bytes = new Array[Byte](10000)
      random.nextBytes(bytes)
      (if (random.nextInt(10) == 0) random.nextInt(partitions) else 5) -> bytes.toSeq
    }
    for ((partition, bytes) <- rows) {
      segments.expect(partition)
      records.add(partition, partition, bytes)
    }
    records.finish()
    segments.end()
    records.close()
    assertEquals(0, CountedCodec.open.get)
    val pushed = arrived(rows.size)
    assertEquals(rows.size, pushed.size)
    assertEquals(rows.toSet, pushed.toSet, s"seed $seed")
  }

  /** So many rows, none of them in a request that is too large. */
  private def arrived(count: Int): Seq[(Int, Seq[Byte])] = {
    val rows = ArrayBuffer.empty[(Int, Seq[Byte])]
    // A segment ends with the record, and the block of the codec, that makes it large enough.
    val mostBytes = bufferBytes + (64 << 10)
    while (rows.size < count) {
      val request = target.arrived.poll(20, TimeUnit.SECONDS)
      assertNotNull(request, "some rows did not arrive")
      val (batch, body) = request
      assertTrue(body.length <= mostBytes, s"a request of ${body.length} bytes")
      var start = 0
      for (segment <- batch.segments) {
        val bytes = new ByteArrayInputStream(body, start, segment.length)
        val wrapped = streams.wrapStream(segments.blockOf(segment.reduceId), bytes)
        val read = serializer.deserializeStream(wrapped).asKeyValueIterator.toList
        assertEquals(segment.records, read.size)
        read.foreach { case (partition, row) =>
          assertEquals(segment.reduceId, partition)
          rows += segment.reduceId -> row.asInstanceOf[Seq[Byte]]
        }
        start += segment.length
      }
    }
    rows.toSeq
  }
}

/** Counts the streams that were not closed, as a codec with memory of its own would leak it. */
final class CountedCodec(conf: SparkConf) extends LZ4CompressionCodec(conf) {
  override def compressedOutputStream(to: OutputStream): OutputStream = {
    CountedCodec.open.incrementAndGet()
    new FilterOutputStream(super.compressedOutputStream(to)) {
      private var isOpen = true
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
        out.write(bytes, offset, length)
      override def close(): Unit = {
        if (isOpen) CountedCodec.open.decrementAndGet()
        isOpen = false
        super.close()
      }
    }
  }
}

object CountedCodec {
  val open = new AtomicInteger
}
