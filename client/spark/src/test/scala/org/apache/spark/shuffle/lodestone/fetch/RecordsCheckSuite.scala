// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.fetch

import org.junit.jupiter.api.Assertions.{assertEquals, assertThrows}
import org.junit.jupiter.api.Test

import org.apache.spark.FetchFailed
import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.shuffle.lodestone.wire.{LaidRun, LaidSegment, PartitionLayout, Status}
import org.apache.spark.storage.{BlockManagerId, ShuffleBlockId}

/** Originals whose number of records a service was told, read because merged data is not. */
final class RecordsCheckSuite {
  private val executor = BlockManagerId("7", "host", 7000)
  private val originals: FetchPlan.Blocks = Seq(executor -> (0 to 2).map { map =>
    (ShuffleBlockId(1, 100L + map, 3), 10L, map)
  })

  /** Of map 1 another attempt was pushed, and of map 2 nobody counted the records. */
  private val counted = {
    val segments = Array(
      LaidSegment(0, 100, 0, 10, 4, 0),
      LaidSegment(1, 999, 0, 10, 4, 0),
      LaidSegment(2, 102, 0, 10, -1, 0))
    BlockRecords(originals, Seq(PartitionLayout(3, Status.Ok, Array(LaidRun(0, segments)))))
  }
  private val check = new RecordsCheck.OfOriginals(counted)

  private def read(map: Int, records: Int): Int =
    check(ShuffleBlockId(1, 100L + map, 3), Iterator.fill(records)("record")).size

  @Test def `a block with as many records as were written is read`(): Unit =
    assertEquals(4, read(map = 0, records = 4))

  @Test def `a block with more or fewer has its map run again where it is`(): Unit =
    Seq(0, 3, 5).foreach { records =>
      val failure = assertThrows(classOf[FetchFailedException], () => { read(0, records); () })
      failure.toTaskFailedReason match {
        case FetchFailed(address, shuffleId, mapId, mapIndex, reduceId, _) =>
          assertEquals(executor, address)
          assertEquals((1, 100L, 0, 3), (shuffleId, mapId, mapIndex, reduceId))
        case other => throw new AssertionError(s"$other")
      }
    }

  @Test def `what is known of another attempt says nothing of this one`(): Unit =
    assertEquals(9, read(map = 1, records = 9))

  @Test def `a block that nobody counted is read as it is`(): Unit = {
    assertEquals(9, read(map = 2, records = 9))
    assertEquals(1, counted.size)
  }
}
