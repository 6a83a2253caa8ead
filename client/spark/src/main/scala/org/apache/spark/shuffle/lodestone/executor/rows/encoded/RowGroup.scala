// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.rows.encoded

import org.apache.spark.shuffle.lodestone.executor.rows.RecordCopy
import org.apache.spark.shuffle.lodestone.plan.SqlRows

/** Whole rows as Spark's serializer writes them, one after another: sizes and bytes. */
private[encoded] final class RowGroup(mostBytes: Int) {
  import RowGroup._

  private[this] val held = new Array[Byte](mostBytes)
  private[this] val startOfRow = new Array[Int](MostRows)
  private[this] val sizeOfRow = new Array[Int](MostRows)
  private[this] var filled = 0
  private[this] var rows = 0

  def bytes: Array[Byte] = held
  def size: Int = filled
  def count: Int = rows
  def starts: Array[Int] = startOfRow
  def sizes: Array[Int] = sizeOfRow

  def clear(): Unit = {
    filled = 0
    rows = 0
  }

  def hasRoom(rowBytes: Int): Boolean =
    rowBytes <= mostBytes - SqlRows.HeadBytes - filled && rows < MostRows

  /** Adds a row for which there is room, with its size before it. */
  def add(base: AnyRef, offset: Long, rowBytes: Int): Unit = {
    val withSize = SqlRows.HeadBytes + rowBytes
    RecordCopy(base, offset, held, ByteSink.address(filled), withSize)
    startOfRow(rows) = filled + SqlRows.HeadBytes
    sizeOfRow(rows) = rowBytes
    filled += withSize
    rows += 1
  }
}

private[encoded] object RowGroup {

  /**
   * Larger ones are hardly encoded better. And this one fits into a processor's own cache together
   * with what it is encoded to.
   */
  val MostBytes: Int = 128 << 10
  val MostRows: Int = 8 << 10
}
