// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.auron.shuffle

import java.io.{InputStream, IOException}
import java.nio.channels.{Channels, ReadableByteChannel}

import org.apache.commons.lang3.reflect.MethodUtils
import org.apache.spark.{InterruptibleIterator, ShuffleDependency, TaskContext}
import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleReader}

/**
 * Stands for the class of this name of Apache Auron (releases 7.0.0, 8.0.0; commit 4b0a3451,
 * spark-extension/src/main/scala/org/apache/spark/sql/execution/auron/shuffle). That one also looks
 * into streams of Spark for a file or a buffer, which native code reads by itself.
 */
abstract class AuronBlockStoreShuffleReaderBase[K, C](
    handle: BaseShuffleHandle[K, _, C],
    context: TaskContext)
    extends ShuffleReader[K, C] {
  import AuronBlockStoreShuffleReaderBase._

  protected val dep: ShuffleDependency[K, _, C] = handle.dependency
  protected def readBlocks(): Iterator[InputStream]

  def readIpc(): Iterator[BlockObject] =
    new InterruptibleIterator[BlockObject](context, readBlocks().map(createBlockObject))

  override def read(): Iterator[Product2[K, C]] =
    throw new NotImplementedError("native code reads")
}

object AuronBlockStoreShuffleReaderBase {
  def createBlockObject(in: InputStream): BlockObject = {
    val channel = Channels.newChannel(in)
    new BlockObject {
      override def getChannel: ReadableByteChannel = channel
      override def close(): Unit = channel.close()
      override def throwFetchFailed(errmsg: String): Unit = fetchFailed(in, errmsg)
    }
  }

  /** Spark's stream of a block has this method, and makes a failed fetch of what is thrown. */
  private def fetchFailed(in: InputStream, errmsg: String): Unit = {
    val broken: () => Object = () => throw new IOException(errmsg)
    try {
      MethodUtils.invokeMethod(in, true, "tryOrFetchFailedException", broken)
    } catch {
      case _: ReflectiveOperationException => throw new IOException(errmsg)
    }
    ()
  }
}

/** Stands for the class of this name, in the same folder. */
abstract class AuronRssShuffleReaderBase[K, C](
    handle: BaseShuffleHandle[K, _, C],
    context: TaskContext)
    extends AuronBlockStoreShuffleReaderBase[K, C](handle, context)
