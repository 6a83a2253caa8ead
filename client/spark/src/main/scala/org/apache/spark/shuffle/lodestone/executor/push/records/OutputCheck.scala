// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

/**
 * Checks that a map task commits exactly the records that its writer took. These checks are always
 * on. A difference is a bug of Lodestone or broken memory, never an error of the user. The task
 * fails before a reader sees its output.
 */
private[push] object OutputCheck {

  def records(partition: Int, taken: Long, written: Long): Unit = if (taken != written) {
    throw new IllegalStateException(
      s"a map task took $taken records for partition $partition, and wrote $written: " +
        "its output is not committed")
  }

  /** Fails: `records` of the partition are in no segment. Fewer than 0 are in several segments. */
  def unsent(partition: Int, records: Long): Nothing =
    throw new IllegalStateException(
      s"a map task took $records records for partition $partition that are in no segment: " +
        "its output is not committed")

  /** Compares the bytes that one of Spark's writers wrote to its files with its output. */
  def whole(written: Long, output: Long): Unit = if (written != output) {
    throw new IllegalStateException(
      s"Spark's writer wrote $written bytes, and its output has $output: the map task fails. " +
        "Look at the executor's local directories")
  }

  /** Compares the bytes that went to the block's stream with those that its writer counted. */
  def bytes(partition: Int, sent: Long, written: Long): Unit = if (sent != written) {
    throw new IllegalStateException(
      s"a map task sent $sent bytes of partition $partition to its output, which has $written: " +
        "it is not committed")
  }
}
