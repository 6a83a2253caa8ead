// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

/**
 * Conservation: what a map task commits is what was put into its writer. It is always on. A difference is
 * a bug here or memory that broke, never a user's; the task fails before anybody reads its output.
 */
private[push] object OutputCheck {

  def records(partition: Int, taken: Long, written: Long): Unit = if (taken != written) {
    throw new IllegalStateException(
      s"a map task took $taken records for partition $partition, and wrote $written: " +
        "its output is not committed")
  }

  /** Records of a partition that are in no segment; fewer than none are in several. */
  def unsent(partition: Int, records: Long): Nothing =
    throw new IllegalStateException(
      s"a map task took $records records for partition $partition that are in no segment: " +
        "its output is not committed")

  /** Of a partition for which there were records. */
  def block(partition: Int, written: Long): Unit = if (written == 0) {
    throw new IllegalStateException(
      s"a map task took records for partition $partition, and Spark's writer lost them: its " +
        "output has no bytes for it, and it is not committed. Look at the executor's local " +
        "directories")
  }

  /** What went to the block's stream, and what its writer says of the file. */
  def bytes(partition: Int, sent: Long, written: Long): Unit = if (sent != written) {
    throw new IllegalStateException(
      s"a map task sent $sent bytes of partition $partition to its output, which has $written: " +
        "it is not committed")
  }
}
