// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.wire

import java.nio.ByteBuffer

/** Reads the requests of the plugin, for the services of tests. */
private[lodestone] object RequestCodecs {
  val hello: Codec[Hello] = codec(64)(in => Hello(in.int(), in.string()))

  val renewLease: Codec[RenewLease] = codec(66)(in => RenewLease(app(in), in.long(), in.long()))

  val endApplication: Codec[EndApplication] = codec(78)(in => EndApplication(app(in)))

  val reportApplication: Codec[ReportApplication] =
    codec(81)(in => ReportApplication(app(in), in.bool(), in.string()))

  val registerShuffle: Codec[RegisterShuffle] = codec(84) { in =>
    RegisterShuffle(shuffle(in), mode(in.byte()), in.int(), in.int(), in.string())
  }

  val segmentLayout: Codec[SegmentLayout] = codec(86) { in =>
    SegmentLayout(shuffle(in), MapRange(in.int(), in.int()), in.seq(4)(in.int()))
  }

  val fetchSegments: Codec[FetchSegments] = codec(88) { in =>
    FetchSegments(
      shuffle(in),
      in.seq(8)(WantedChunk(in.int(), in.seq(8)(SegmentRun(in.int(), in.int())))))
  }

  val commitMap: Codec[CommitMap] = codec(89) { in =>
    CommitMap(shuffle(in), in.int(), in.long(), Ledger(in.long(), in.long()))
  }

  val abortMap: Codec[AbortMap] = codec(90)(in => AbortMap(shuffle(in), in.int(), in.long()))

  val pushBatch: Codec[PushBatch] = codec(96) { in =>
    PushBatch(shuffle(in), in.int(), in.long(), in.int(), in.bool(), in.seq(20)(segment(in)))
  }

  private val all = Seq[Codec[_ <: Message]](
    hello,
    renewLease,
    endApplication,
    reportApplication,
    registerShuffle,
    segmentLayout,
    fetchSegments,
    commitMap,
    abortMap,
    pushBatch)

  def decode(in: ByteBuffer): Message = {
    val typeId = in.get(in.position()).toInt
    all.find(_.typeId == typeId) match {
      case Some(codec) => codec.decode(in)
      case None => throw new IllegalStateException(s"message type $typeId is not expected")
    }
  }

  private def app(in: WireReader): Application = Application(in.string(), in.int())

  private def shuffle(in: WireReader): ShuffleAddress =
    ShuffleAddress(app(in), in.long(), in.int(), in.int())

  private def mode(code: Byte): ShuffleMode =
    Seq(ShuffleMode.Merge, ShuffleMode.Remote)
      .find(_.code == code)
      .getOrElse(throw new MalformedMessageException(s"unknown mode $code of a shuffle"))

  private def segment(in: WireReader): Segment = {
    val (reduceId, sequence) = (in.int(), in.int())
    Segment(reduceId, in.int(), in.int(), in.int(), sequence)
  }

  private def codec[M <: Message](typeId: Int)(fields: WireReader => M): Codec[M] =
    new Codec[M](typeId) {
      override private[wire] def read(in: WireReader): M = fields(in)
    }
}
