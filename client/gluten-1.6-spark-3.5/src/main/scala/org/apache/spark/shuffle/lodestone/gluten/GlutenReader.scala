// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import java.io.InputStream

import org.apache.gluten.vectorized.ColumnarBatchSerializerInstance

import org.apache.spark.{InterruptibleIterator, ShuffleDependency, TaskContext}
import org.apache.spark.shuffle.ShuffleReader
import org.apache.spark.shuffle.lodestone.engine.EngineReader
import org.apache.spark.storage.BlockId
import org.apache.spark.util.CompletionIterator

/**
 * Gives the blocks of a pushed shuffle to Gluten's native reader. It decodes pushed frames, and
 * blocks of local files that executors keep: the head of each frame says which of them it is.
 */
private[gluten] final class GlutenReader[K, C](
    dependency: ShuffleDependency[K, _, C],
    blocks: EngineReader,
    context: TaskContext)
    extends ShuffleReader[K, C] {

  override def read(): Iterator[Product2[K, C]] = {
    val batches = dependency.serializer
      .newInstance()
      .asInstanceOf[ColumnarBatchSerializerInstance]
      .deserializeStreams(new Streams(blocks))
      .asKeyValueIterator
      .map { batch =>
        // Gluten's metrics take what is counted here for batches, and count rows by themselves.
        blocks.addRows(1)
        batch
      }
    // Gluten adds the rows of a batch after it has got it. The last one comes after the last block.
    val counted = CompletionIterator[(Any, Any), Iterator[(Any, Any)]](
      batches,
      context.taskMetrics().mergeShuffleReadMetrics())
    new InterruptibleIterator(context, counted).asInstanceOf[Iterator[Product2[K, C]]]
  }
}

/** Gluten needs no name of a block. */
private final class Streams(blocks: EngineReader) extends Iterator[(BlockId, InputStream)] {
  override def hasNext: Boolean = blocks.hasNext

  override def next(): (BlockId, InputStream) = (null, new WholeReads(blocks.next().frames()))
}

/**
 * A stream as native code expects it. A read that gives fewer bytes than it was asked for is a
 * truncated frame there, and nobody notices it: the rest of the memory is taken for bytes. And
 * Gluten closes each stream before it asks for the next one, also one that it has not read to its
 * end. So closing does nothing: then the reader of blocks refuses to go on if bytes are left. What
 * a stream has is given back when it is over, or with the task.
 */
private[gluten] final class WholeReads(in: InputStream) extends InputStream {
  override def read(): Int = in.read()

  override def read(target: Array[Byte], offset: Int, length: Int): Int = {
    val count = in.readNBytes(target, offset, length)
    if (count == 0 && length > 0) -1 else count
  }

  override def available(): Int = in.available()
}
