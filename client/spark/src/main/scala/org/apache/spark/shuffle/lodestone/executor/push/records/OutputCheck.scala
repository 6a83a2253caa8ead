// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

/**
 * Checks that a map task commits exactly the records that its writer took. These checks are always
 * on. A difference is a bug of Lodestone or broken memory, never an error of the user. The task
 * fails before a reader sees its output.
 */
private[push] object OutputCheck {

  def records(partition: Int, taken: Long, written: Long): Unit =
    same(taken, written)(s"took $taken records for partition $partition, and wrote $written")

  /** Fails: `records` of the partition are in no segment. Fewer than 0 are in several segments. */
  def unsent(partition: Int, records: Long): Unit =
    same(records, 0)(s"took $records records for partition $partition that are in no segment")

  /** Compares the bytes that one of Spark's writers wrote to its files with its output. */
  def whole(written: Long, output: Long): Unit = same(written, output)(
    s"wrote $written bytes with Spark's writer, and its output has $output (look at the " +
      "executor's local directories)")

  /** Compares the blocks that an engine's writer wrote with the file that has them. */
  def file(blocks: Long, size: Long): Unit = same(blocks, size)(
    s"wrote $blocks bytes with its engine's writer, and the file has $size")

  /** Compares the number of blocks that an engine's writer wrote with that of partitions. */
  def partitions(blocks: Int, partitions: Int): Unit = same(partitions.toLong, blocks.toLong)(
    s"wrote $blocks blocks with its engine's writer for $partitions partitions")

  /** Compares the bytes that went to the block's stream with those that its writer counted. */
  def bytes(partition: Int, sent: Long, written: Long): Unit =
    same(sent, written)(s"sent $sent bytes of partition $partition to its output of $written")

  private def same(expected: Long, found: Long)(what: => String): Unit =
    if (expected != found) {
      throw new IllegalStateException(s"a map task $what: its output is not committed")
    }
}
