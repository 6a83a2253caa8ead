# SPDX-License-Identifier: Apache-2.0
"""Bugs of those who write and push blocks."""

from .bug import bug

RECORDS = "executor/push/records"
REMOTE = "executor/push/remote"

LOCAL, PUSHED = "WriterFaultsSuite", "RemoteWriterFaultsSuite"

# As it was: what Spark throws when a consumer cannot spill is taken for want of memory.
WANT_OF_MEMORY = (
    f"{RECORDS}/RecordPages.scala",
    "    val granted = acquireMemory(bytes)\n",
    """    val granted =
      try acquireMemory(bytes)
      catch { case _: org.apache.spark.memory.SparkOutOfMemoryError => 0L }
""",
)
UNCOUNTED = (
    f"{RECORDS}/SerializedMapWriter.scala",
    "    OutputCheck.records(partition, counts.in(partition), written)\n",
    "",
)
UNSENT = (f"{REMOTE}/SegmentWriter.scala", "    checkRecords()\n", "    ()\n")

BUGS = [
    bug(
        "a spill that failed is taken for want of memory, and repeated beside its half",
        LOCAL,
        WANT_OF_MEMORY,
        UNCOUNTED,
        (
            f"{RECORDS}/SerializedMapWriter.scala",
            """    val spill = Spill.write(spillFiles) { (out, index) =>
      while (held.hasNext) {
        val partition = held.partition
        val records = encode(held, partition, out)
        index.ended(partition, out.bytes, records)
      }
    }
    spills += spill
    context.taskMetrics().incDiskBytesSpilled(spill.bytes)
""",
            """    while (held.hasNext) {
      spills += Spill.write(spillFiles) { (out, index) =>
        val partition = held.partition
        val records = encode(held, partition, out)
        index.ended(partition, out.bytes, records)
      }
    }
""",
        ),
    ),
    bug(
        "an error of another consumer's spill is taken for want of memory",
        LOCAL,
        WANT_OF_MEMORY,
    ),
    bug(
        "an error of another consumer's spill is taken for want of memory by a task that pushes",
        PUSHED,
        WANT_OF_MEMORY,
    ),
    bug(
        "an encoder keeps what was left of a block that failed",
        "FrameEncoderSuite",
        (
            f"{RECORDS}/FrameEncoder.scala",
            "    filled = 0\n    begin(block, out)\n",
            "    begin(block, out)\n",
        ),
    ),
    bug(
        "the last piece of a block stays in its encoder",
        LOCAL,
        (
            f"{RECORDS}/FrameEncoder.scala",
            "  override def close(): Unit = flush()\n",
            "  override def close(): Unit = filled = 0\n",
        ),
    ),
    bug(
        "a spill counts as whole though its file could not be closed",
        LOCAL,
        (
            f"{RECORDS}/Spill.scala",
            "Utils.tryWithSafeFinally(content(out, index))(out.close())",
            "content(out, index); try out.close() catch { case _: IOException => }",
        ),
    ),
    bug(
        "a block of a spill is one byte short",
        LOCAL,
        (
            f"{RECORDS}/Spill.scala",
            "    lengths(filled) = at - end\n",
            "    lengths(filled) = at - end - 1\n",
        ),
    ),
    bug(
        "the end of a spilled block that is missing is not noticed",
        LOCAL,
        (
            f"{RECORDS}/Spill.scala",
            "        if (count < 0) throw missing(left)\n",
            "        if (count < 0) { next += 1; return index.records(next - 1) }\n",
        ),
    ),
    bug(
        "the last batch of rows is lost",
        LOCAL,
        (f"{RECORDS}/SerializedMapWriter.scala", "    input.finish()\n", ""),
    ),
    bug(
        "the last batch of rows is lost, and nobody counts",
        LOCAL,
        (f"{RECORDS}/SerializedMapWriter.scala", "    input.finish()\n", ""),
        UNCOUNTED,
    ),
    bug(
        "the last batch of rows that are pushed is lost, and nobody counts",
        PUSHED,
        (f"{REMOTE}/SerializedRecords.scala", "    input.finish()\n", ""),
        UNSENT,
    ),
    bug(
        "a node's head is not written when its partition goes on in another one",
        LOCAL,
        (f"{RECORDS}/PartitionChains.scala", " else end(table, row, node)\n", "\n"),
    ),
    bug(
        "partitions that are 1,000 apart share a row of their table",
        LOCAL,
        (
            f"{RECORDS}/PartitionChains.scala",
            "(partition & TableMask) * Fields",
            "(partition & TableMask) % 1000 * Fields",
        ),
    ),
    bug(
        "spills are put together in the wrong order",
        LOCAL,
        (
            f"{RECORDS}/SerializedMapWriter.scala",
            "      spilled.foreach(spill => if",
            "      spilled.reverseIterator.foreach(spill => if",
        ),
    ),
    bug(
        "a spill's file is deleted before it is read",
        LOCAL,
        (
            f"{RECORDS}/SerializedMapWriter.scala",
            "    spills += spill\n",
            "    spills += spill\n    spill.delete()\n",
        ),
    ),
    bug(
        "an output is committed that its file system did not commit",
        LOCAL,
        (
            f"{RECORDS}/SerializedMapWriter.scala",
            "output.commitAllPartitions(checksums.values).getPartitionLengths",
            "scala.util.Try(output.commitAllPartitions(checksums.values).getPartitionLengths)"
            ".getOrElse(new Array[Long](numPartitions))",
        ),
    ),
    bug(
        "the checksum of a block is kept for the partition before it",
        "SerializedMapWriterSuite",
        (
            f"{RECORDS}/BlockOutput.scala",
            "values(partition) = c.getValue",
            "values(math.max(0, partition - 1)) = c.getValue",
        ),
    ),
    bug(
        "two segments of a block have the same number",
        PUSHED,
        (f"{REMOTE}/SegmentWriter.scala", "    numbers.add(rank, 1)\n", ""),
    ),
    bug(
        "a block does not say which segment is its last",
        PUSHED,
        (
            f"{REMOTE}/SegmentWriter.scala",
            "newest == last) {\n        output.markLast()",
            "newest == last) {\n        ()",
        ),
    ),
    bug(
        "a segment says that it has one record more",
        PUSHED,
        (
            f"{REMOTE}/SegmentWriter.scala",
            "endSegment(rank, shown(count)).length",
            "endSegment(rank, shown(count) + 1).length",
        ),
    ),
    bug(
        "a buffer of objects is used again after it was given away",
        PUSHED,
        (
            f"{REMOTE}/ObjectRecords.scala",
            "    if (maybeSpill(buffer, bytes)) buffer = new PartitionedPairBuffer[Any, Any]\n",
            "    maybeSpill(buffer, bytes)\n    ()\n",
        ),
    ),
    bug(
        "what was combined is pushed again with what is combined later",
        PUSHED,
        (
            f"{REMOTE}/CombineBuffer.scala",
            "if (maybeSpill(map, map.estimateSize())) map = new PartitionedAppendOnlyMap[K, C]\n",
            "maybeSpill(map, map.estimateSize())\n",
        ),
    ),
    bug(
        "a stream that is still open is left out of the last round",
        PUSHED,
        (
            f"{REMOTE}/StreamedRecords.scala",
            "    segments.beginLastRound()\n    giveAll()\n",
            "    segments.beginLastRound()\n",
        ),
    ),
    bug("a map task does not compare how many records it wrote", "OutputCheckSuite", UNCOUNTED),
    bug(
        "a map task does not compare how many bytes its output has",
        "OutputCheckSuite",
        (
            f"{RECORDS}/SerializedMapWriter.scala",
            "      OutputCheck.bytes(partition, out.bytes, writer.getNumBytesWritten)\n",
            "",
        ),
    ),
    bug(
        "a task that pushes does not compare how many records it sent", "SegmentWriterSuite", UNSENT
    ),
    bug(
        "nobody notices a block that Spark's own writer has lost",
        "VanishedBlockSuite",
        (
            "executor/push/WrappedShuffleWriter.scala",
            "    OutputCheck.whole(files.bytes, getPartitionLengths().sum)\n",
            "",
        ),
    ),
    bug(
        "a block that changed after its map task wrote it is pushed",
        "PushRequestSuite",
        (
            "executor/push/PushRequests.scala",
            "if (!map.isAsWritten(reduceId, checksum))",
            "if (length < 0)",
        ),
    ),
]
