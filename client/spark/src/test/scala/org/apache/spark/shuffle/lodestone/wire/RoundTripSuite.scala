// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

import java.nio.ByteBuffer
import java.util.Random

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows}
import org.junit.jupiter.api.Test

final class RoundTripSuite {
  private val seed = System.nanoTime()
  private val random = new Random(seed)

  private def text(): String = {
    val alphabet = "abcXYZ_09é漢"
    Seq.fill(random.nextInt(20))(alphabet(random.nextInt(alphabet.length))).mkString
  }

  private def app() = Application(text(), random.nextInt())
  private def shuffle() =
    ShuffleAddress(app(), random.nextLong(), random.nextInt(), random.nextInt())
  private def load() = Load(
    random.nextInt(4).toByte,
    random.nextLong(),
    random.nextLong(),
    random.nextLong(),
    random.nextLong(),
    random.nextInt(),
    random.nextInt())
  private def status() = Status.all(random.nextInt(Status.all.size))
  private def few = random.nextInt(5)
  private def run() = LaidRun(
    random.nextInt(),
    Array.fill(few)(LaidSegment(
      random.nextInt(),
      random.nextLong(),
      random.nextInt(),
      random.nextInt(),
      random.nextInt(),
      random.nextInt())))
  private def places() = WantedChunk(
    random.nextInt(),
    Array.fill(few)(SegmentRun(random.nextInt(), random.nextInt())))

  private def messages(): Seq[(Codec[_ <: Message], Message)] = Seq(
    RequestCodecs.hello -> Hello(random.nextInt(), text()),
    HelloReply -> HelloReply(random.nextInt(), text(), random.nextLong(), load(), text()),
    RequestCodecs.renewLease -> RenewLease(app(), random.nextLong(), random.nextLong()),
    LeaseReply -> LeaseReply(random.nextLong(), random.nextLong(), load()),
    RequestCodecs.registerShuffle -> RegisterShuffle(
      shuffle(),
      if (random.nextBoolean()) ShuffleMode.Merge else ShuffleMode.Remote,
      random.nextInt(),
      random.nextInt(),
      text()),
    RequestCodecs.pushBatch -> PushBatch(
      shuffle(),
      random.nextInt(),
      random.nextLong(),
      random.nextInt(),
      random.nextBoolean(),
      Array.fill(few)(
        Segment(
          random.nextInt(),
          random.nextInt(),
          random.nextInt(),
          random.nextInt(),
          random.nextInt()))),
    PushBatchReply -> PushBatchReply(
      random.nextLong(),
      random.nextBoolean(),
      Array.fill(few)(status())),
    RequestCodecs.segmentLayout -> SegmentLayout(
      shuffle(),
      MapRange(random.nextInt(), random.nextInt()),
      Array.fill(few)(random.nextInt())),
    SegmentLayoutReply -> SegmentLayoutReply(
      random.nextLong(),
      "format" * few,
      Array.fill(few)(PartitionLayout(random.nextInt(), status(), Array.fill(few)(run())))),
    RequestCodecs.fetchSegments -> FetchSegments(shuffle(), Array.fill(few)(places())),
    RequestCodecs.commitMap -> CommitMap(
      shuffle(),
      random.nextInt(),
      random.nextLong(),
      Ledger(random.nextLong(), random.nextLong())),
    RequestCodecs.abortMap -> AbortMap(shuffle(), random.nextInt(), random.nextLong()),
    OpenStream -> OpenStream(random.nextLong(), random.nextInt()),
    RequestCodecs.endApplication -> EndApplication(app()),
    Done -> Done(random.nextLong()),
    Refused -> Refused(status(), random.nextLong(), text()))

  @Test def everyMessageIsReadBackAsItWasWritten(): Unit =
    for (_ <- 0 until 200; (codec, message) <- messages()) {
      val bytes = message.encode()
      assertEquals(bytes, codec.decode(bytes).encode(), s"seed $seed: $message")
    }

  @Test def aMessageThatIsCutAnywhereIsRefused(): Unit =
    for ((codec, message) <- messages()) {
      val bytes = message.encode()
      for (length <- 0 until bytes.remaining()) {
        val cut = bytes.duplicate()
        cut.limit(length)
        assertThrows(
          classOf[MalformedMessageException],
          () => { codec.decode(cut); () },
          s"seed $seed: $message cut to $length bytes")
      }
    }

  @Test def bytesAfterAMessageAreRefused(): Unit = {
    val bytes = ByteBuffer.allocate(10).put(Done(7).encode()).put(0.toByte)
    bytes.flip()
    assertThrows(classOf[MalformedMessageException], () => { Done.decode(bytes); () })
  }

  @Test def aCountThatTheMessageCannotHoldIsRefusedBeforeAnythingIsAllocated(): Unit = {
    val bytes = ByteBuffer.allocate(14).put(97.toByte).putLong(1).put(0.toByte).putInt(Int.MaxValue)
    bytes.flip()
    assertThrows(classOf[MalformedMessageException], () => { PushBatchReply.decode(bytes); () })
  }

  @Test def aRefusalInPlaceOfTheAnswerIsThrownWithItsCode(): Unit = {
    val refused = Refused(Status.StaleIncarnation, 5, "restarted")
    val thrown = assertThrows(
      classOf[RefusedException],
      () => { Done.decodeReply(refused.encode()); () })
    assertEquals(refused, thrown.refusal)
  }

  @Test def statusesAreWhereTheirCodesSay(): Unit =
    Status.all.foreach(status => assertEquals(status, Status.of(status.code)))
  val retired = 18.toByte
  for (code <- Seq(retired, (Status.all.map(_.code).max + 1).toByte, -1.toByte)) {
    assertThrows(classOf[MalformedMessageException], () => { Status.of(code); () })
  }
}
