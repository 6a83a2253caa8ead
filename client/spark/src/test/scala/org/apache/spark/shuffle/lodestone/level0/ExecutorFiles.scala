// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.io.{DataOutputStream, File, FileOutputStream}
import java.nio.ByteBuffer
import java.nio.file.{Files => JavaFiles}

import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.network.shuffle.{ExecutorDiskUtils, MergedBlockMeta}

import org.roaringbitmap.RoaringBitmap

/** The files of the executors of one service, in a run with this name. */
private[level0] final class ExecutorFiles(root: File, run: String) {
  import ExecutorFiles._

  def appId(app: Int): String = s"app-$run-$app"

  def localDirs(app: Int, exec: Int): Array[String] =
    Disks.map(disk => new File(appDir(app), s"$disk/blockmgr-$exec").getPath).toArray

  def mergeDir(attempt: Int): String =
    if (attempt < 0) "merge_manager" else s"merge_manager_$attempt"

  /** What an executor makes before it registers. */
  def makeDirs(register: Register): Unit = {
    localDirs(register.app, register.exec).foreach(dir => new File(dir).mkdirs())
    if (register.pushes && register.hasMergeDirs) {
      for (disk <- Disks; sub <- 0 until SubDirs) {
        val dir = mergeDir(register.attempt)
        new File(appDir(register.app), f"$disk/$dir/$sub%02x").mkdirs()
      }
    }
  }

  def write(output: WriteOutput): Unit = {
    val blocks = Content.ofOutput(output)
    val stem = s"shuffle_${output.shuffle}_${output.map}_0"
    def file(suffix: String): File = blockFile(output.app, output.exec, s"$stem.$suffix")
    // As Spark writes it: a file that a service has open stays as it is.
    file("data").delete()
    writeBytes(file("data"))(out => blocks.foreach(out.write(_)))
    writeBytes(file("index"))(out => blocks.scanLeft(0L)(_ + _.length).foreach(out.writeLong))
    writeBytes(file(s"checksum.${output.algorithm}"))(out =>
      Content.sumsOf(output).foreach(out.writeLong))
  }

  def write(rdd: WriteRdd): Unit =
    writeBytes(blockFile(rdd.app, rdd.exec, s"rdd_${rdd.rdd}_${rdd.split}"))(out =>
      out.write(Content.ofRdd(rdd)))

  def writeForeign(app: Int, exec: Int): Unit =
    writeBytes(blockFile(app, exec, Foreign))(_.write(1))

  def hasForeign(app: Int, exec: Int): Boolean = blockFile(app, exec, Foreign).exists

  def hasDirs(app: Int, exec: Int): Boolean = localDirs(app, exec).exists(new File(_).exists)

  /** Reads the files of a merged partition as an executor on the host of the service does. */
  def merged(dirs: Array[String], read: ReadMerged): Answer = {
    val stem = s"shuffleMerged_${appId(read.app)}_${read.shuffle}_${read.merge}_${read.reduce}"
    def bytes(suffix: String): Option[Array[Byte]] = {
      val file = new File(ExecutorDiskUtils.getFilePath(dirs, SubDirs, s"$stem.$suffix"))
      if (file.isFile) Some(JavaFiles.readAllBytes(file.toPath)) else None
    }
    (bytes("data"), bytes("index"), bytes("meta")) match {
      case (Some(data), Some(index), Some(meta)) =>
        val longs = ByteBuffer.wrap(index).asLongBuffer()
        val offsets = Array.fill(longs.remaining())(longs.get().toInt)
        val maps = bitmaps(offsets.length - 1, ByteBuffer.wrap(meta))
        require(offsets.last == data.length, s"$stem: the data goes on after the last chunk")
        Answer.Merged(maps.zip(offsets.zip(offsets.tail)).map { case (map, (from, until)) =>
          Answer.Chunk(map, Answer.Block(data.slice(from, until)))
        })
      case (None, None, None) => Answer.Failed("there are no files")
      case _ => Answer.Failed("files are missing")
    }
  }

  /** Directories as the test names them, whatever the root. */
  def relative(dir: String): String = dir.stripPrefix(root.getPath)

  /** The directories of executors of an application, without those of merged partitions. */
  def blockManagerDirs(app: Int): Seq[File] = for {
    disk <- Disks
    dirs <- Option(new File(appDir(app), disk).listFiles()).toSeq
    dir <- dirs.toSeq if dir.getName.startsWith("blockmgr-")
  } yield dir

  private def appDir(app: Int): File = new File(root, appId(app))

  private def blockFile(app: Int, exec: Int, name: String): File =
    new File(ExecutorDiskUtils.getFilePath(localDirs(app, exec), SubDirs, name))
}

private[level0] object ExecutorFiles {
  val SubDirs = 4
  val Merger = "shuffle-push-merger"
  val Foreign = "temp_local_4711"
  private val Disks = Seq("disk-a", "disk-b")

  /** The maps of each chunk. */
  def bitmaps(chunks: Int, bytes: ByteBuffer): Seq[Set[Int]] = {
    val meta = new MergedBlockMeta(chunks, new NioManagedBuffer(bytes))
    meta.readChunkBitmaps().toSeq.map(mapsOf)
  }

  def mapsOf(bitmap: RoaringBitmap): Set[Int] = bitmap.toArray.toSet

  private def writeBytes(file: File)(write: DataOutputStream => Unit): Unit = {
    file.getParentFile.mkdirs()
    val out = new DataOutputStream(new java.io.BufferedOutputStream(new FileOutputStream(file)))
    try write(out)
    finally out.close()
  }

  /** Every file below a directory. Others may delete meanwhile. */
  def below(dir: File): Seq[File] =
    Option(dir.listFiles()).fold(if (dir.isFile) Seq(dir) else Nil)(_.toSeq.flatMap(below))

  def delete(dir: File): Unit = {
    Option(dir.listFiles()).foreach(_.foreach(delete))
    dir.delete()
    ()
  }
}
