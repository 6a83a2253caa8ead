// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.executor.push.records

import java.io.{File, FileInputStream, FileOutputStream, InputStream, OutputStream}

import org.apache.spark.storage.DiskBlockManager

/**
 * Where those parts of a map output are kept that had to leave memory. It is small, so that a test can
 * give a writer disks that fill up, fail, or keep less than they were given.
 */
private[records] trait SpillFiles {
  def create(): SpillFile
}

/** One file: written once, then read, then deleted. */
private[records] trait SpillFile {
  def write(): OutputStream
  def read(): InputStream

  /** Does not fail: a file that stays goes with its executor's directory. */
  def delete(): Unit

  /** For errors. */
  def name: String
}

/** Temporary files in Spark's local directories, where Spark's own writers spill. */
private[records] final class LocalSpillFiles(disks: DiskBlockManager) extends SpillFiles {
  override def create(): SpillFile = new LocalSpillFile(disks.createTempShuffleBlock()._2)
}

private final class LocalSpillFile(file: File) extends SpillFile {
  override def write(): OutputStream = new FileOutputStream(file)

  override def read(): InputStream = new FileInputStream(file)

  override def delete(): Unit = {
    file.delete()
    ()
  }

  override def name: String = file.getPath
}
