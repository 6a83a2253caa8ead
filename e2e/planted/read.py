# SPDX-License-Identifier: Apache-2.0
"""Bugs of those who read blocks, and of the driver that tells them what was written."""

from .bug import bug

FETCH = "executor/fetch"
FRAMES = "executor/rows/frames"
ENCODED = "executor/rows/encoded"

BUGS = [
    bug(
        "a reader takes the segments of any attempt",
        "WantedSegmentsSuite",
        (f"{FETCH}/remote/WantedSegments.scala", "wanted.isFrom(segment) && source", "source"),
    ),
    bug(
        "a reader does not miss a segment",
        "WantedSegmentsSuite",
        (
            f"{FETCH}/remote/WantedSegments.scala",
            "=> met.isWhole(mapIndex) }",
            "=> mapIndex >= 0 }",
        ),
    ),
    bug(
        "a reader does not compare what it read with what was written",
        "RecordsCheckSuite",
        (
            f"{FETCH}/CheckedRecords.scala",
            "written != BlockRecords.NotCounted && written != read",
            "written != BlockRecords.NotCounted && written < 0",
        ),
    ),
    bug(
        "a reader compares no block that has records",
        "RecordsCheckSuite",
        (
            f"{FETCH}/CheckedRecords.scala",
            "    end()\n    while (",
            "    while (",
        ),
    ),
    bug(
        "a reader does not ask for the numbers of a map that was run again",
        "WrittenRecordsSuite",
        (
            f"{FETCH}/WrittenRecords.scala",
            "counted.orElse(countedAgain).in(id)",
            "counted.in(id)",
        ),
    ),
    bug(
        "the number of several partitions' records is that of the first",
        "WrittenRecordsSuite",
        (
            f"{FETCH}/BlockRecords.scala",
            "      in(mapId, startReduceId, endReduceId)\n",
            "      in(mapId, startReduceId, startReduceId + math.min(1, endReduceId))\n",
        ),
    ),
    bug(
        "the driver sends the number of the partition before",
        "MapCountsSuite",
        (
            "driver/counts/MapCounts.scala",
            "attempt.records(partition)",
            "attempt.records(math.max(0, partition - 1))",
        ),
    ),
    bug(
        "the driver forgets the other attempt of a map",
        "MapCountsSuite",
        (
            "driver/counts/MapCounts.scala",
            ".take(MostAttempts - 1)",
            ".take(MostAttempts - 2)",
        ),
    ),
    bug(
        "a reader takes the merged block of any attempt",
        "ReadSourcesSuite",
        (
            f"{FETCH}/WantedBlocks.scala",
            "attempt != NoAttempt && attempt == segment.mapId",
            "attempt != NoAttempt",
        ),
    ),
    bug(
        "a block that two services have is read from both",
        "ReadSourcesSuite",
        (
            f"{FETCH}/WantedBlocks.scala",
            "if (isWanted) attempts -= segment.mapIndex.toLong\n    else if",
            "if",
        ),
    ),
    bug(
        "an original is read beside the chunk that stands for it",
        "ReadSourcesSuite",
        (
            f"{FETCH}/ReadSources.scala",
            "select(originals)(isOriginal)",
            "select(originals)(_ => true)",
        ),
    ),
    bug(
        "a frame that ends in its head is the end of all frames",
        "WholeFramesSuite",
        (
            f"{FRAMES}/WholeFrames.scala",
            """      if (found < head.length) fail("they end in the head of a frame")\n""",
            "      if (found < head.length) return 0\n",
        ),
    ),
    bug(
        "an engine decodes a block whose checksum is wrong",
        "CheckedFramesSuite",
        (f"{FETCH}/ChecksummedBlock.scala", "crc.getValue != written", "written < 0"),
    ),
    bug(
        "rows of a damaged row group are decoded",
        "EncodedRowsSuite",
        (
            f"{ENCODED}/RowGroupBytes.scala",
            "checksum.getValue.toInt != head.getInt(ChecksumAt)",
            "checksum.getValue < 0",
        ),
    ),
    bug(
        "all segments of a chunk are decrypted as the first one is",
        "BlockEncryptionSuite",
        (
            "executor/rows/BlockEncryption.scala",
            "lengths.next().toLong, false",
            "lengths.sum.toLong, false",
        ),
    ),
]
