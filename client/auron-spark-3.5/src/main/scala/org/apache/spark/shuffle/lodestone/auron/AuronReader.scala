// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.auron

import java.io.{FilterInputStream, InputStream, IOException}

import scala.collection.JavaConverters._

import org.apache.spark.TaskContext
import org.apache.spark.shuffle.BaseShuffleHandle
import org.apache.spark.shuffle.lodestone.engine.{EngineBlock, EngineReader}
import org.apache.spark.sql.execution.auron.shuffle.AuronRssShuffleReaderBase

/**
 * Auron's reader of these streams. Native code decodes them on a thread of its own, counts their
 * rows, and asks for the next one after the end of the last.
 */
private[auron] final class AuronReader[K, C](
    handle: BaseShuffleHandle[K, _, C],
    context: TaskContext,
    streams: => Iterator[InputStream])
    extends AuronRssShuffleReaderBase[K, C](handle, context) {
  override protected def readBlocks(): Iterator[InputStream] = streams
}

private[auron] object AuronReader {
  def apply[K, C](
      handle: BaseShuffleHandle[K, _, C],
      context: TaskContext,
      blocks: EngineReader): AuronReader[K, C] =
    new AuronReader(handle, context, blocks.asScala.map(new BlockStream(_)))

  /**
   * A stream that native code may fail to decode. Auron looks for a method of this name, which
   * Spark's own stream has, and calls it with what throws the failure.
   */
  final class BlockStream(block: EngineBlock) extends FilterInputStream(block.frames) {
    def tryOrFetchFailedException[T](act: => T): T =
      try act
      catch {
        case undecodable: IOException =>
          block.broken(s"Auron cannot decode it: ${undecodable.getMessage}")
          throw undecodable
      }
  }
}
