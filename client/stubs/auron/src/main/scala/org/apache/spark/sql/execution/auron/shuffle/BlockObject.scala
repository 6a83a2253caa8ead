// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.auron.shuffle

import java.nio.ByteBuffer
import java.nio.channels.ReadableByteChannel

/**
 * Stands for the trait of this name of Apache Auron (releases 7.0.0, 8.0.0; commit 4b0a3451,
 * spark-extension/src/main/scala/org/apache/spark/sql/execution/auron/shuffle/
 * AuronBlockStoreShuffleReaderBase.scala). Native code calls its methods (ipc_reader_exec.rs).
 */
trait BlockObject extends AutoCloseable {
  def hasFileSegment: Boolean = false
  def hasByteBuffer: Boolean = false
  def getFilePath: String = throw new UnsupportedOperationException
  def getFileOffset: Long = throw new UnsupportedOperationException
  def getFileLength: Long = throw new UnsupportedOperationException
  def getByteBuffer: ByteBuffer = throw new UnsupportedOperationException
  def getChannel: ReadableByteChannel = throw new UnsupportedOperationException
  def throwFetchFailed(errmsg: String): Unit = throw new UnsupportedOperationException(errmsg)
}
