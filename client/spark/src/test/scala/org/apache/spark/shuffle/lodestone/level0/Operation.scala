// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

/**
 * A request that both services get, or a change of the files of an executor that both read. Shown
 * as Scala, it can be run again. `on` is the number of a connection.
 */
private[level0] sealed trait Operation extends Product {
  def app: Int
}

/** `pushes`: the executor names merge directories, as Spark's does with push-based shuffle. */
private[level0] final case class Register(
    app: Int,
    exec: Int,
    attempt: Int,
    pushes: Boolean = true,
    hasMergeDirs: Boolean = true,
    manager: String = "org.apache.spark.shuffle.sort.SortShuffleManager",
    on: Int = 0)
    extends Operation

/** The files of a map output. `wrongBy` is added to the checksums that the writer kept. */
private[level0] final case class WriteOutput(
    app: Int,
    exec: Int,
    shuffle: Int,
    map: Long,
    lengths: List[Int],
    algorithm: String = "ADLER32",
    wrongBy: Int = 0)
    extends Operation

private[level0] final case class WriteRdd(app: Int, exec: Int, rdd: Int, split: Int, length: Int)
    extends Operation

/** `variant` distinguishes the bytes of two attempts of a map. */
private[level0] final case class Push(
    app: Int,
    attempt: Int,
    shuffle: Int,
    merge: Int,
    map: Int,
    reduce: Int,
    variant: Int = 0,
    on: Int = 0)
    extends Operation {

  def bytes: Array[Byte] = Content.ofPush(this)
}

/** Pushes at the same time. */
private[level0] final case class Together(app: Int, pushes: List[Push]) extends Operation

/** One call of Spark's `OneForOneBlockPusher`. All blocks are of one shuffle. */
private[level0] final case class PushByClient(app: Int, pushes: List[Push]) extends Operation

/**
 * A push that stands still after `sent` bytes, until `inner` is done. Then it ends, or its
 * connection is closed. `deletesLate`: Spark's service closes and deletes what `inner` replaces
 * after this, as its thread for deletions may.
 */
private[level0] final case class Held(
    app: Int,
    push: Push,
    sent: Int,
    inner: List[Operation],
    isTorn: Boolean,
    deletesLate: Boolean = false)
    extends Operation

private[level0] final case class Finalize(
    app: Int,
    attempt: Int,
    shuffle: Int,
    merge: Int,
    on: Int = 0)
    extends Operation

/** The meta of a merged partition, and all of its chunks; or its files, as executors read them. */
private[level0] final case class ReadMerged(
    app: Int,
    shuffle: Int,
    merge: Int,
    reduce: Int,
    fromDisk: Boolean = false,
    on: Int = 0)
    extends Operation

private[level0] final case class ReadChunk(
    app: Int,
    shuffle: Int,
    merge: Int,
    reduce: Int,
    chunk: Int,
    on: Int = 0)
    extends Operation

/** Partitions of a map output; with batches, the first one and the one after the last. */
private[level0] final case class Wanted(map: Long, reduces: List[Int])

private[level0] final case class Fetch(
    app: Int,
    exec: Int,
    shuffle: Int,
    wanted: List[Wanted],
    isBatch: Boolean = false,
    asStreams: Boolean = false,
    on: Int = 0)
    extends Operation

/** A request of the old form, with names of blocks. */
private[level0] final case class Open(app: Int, exec: Int, blocks: List[BlockName], on: Int = 0)
    extends Operation

private[level0] sealed trait BlockName
private[level0] final case class OutputBlock(shuffle: Int, map: Long, reduce: Int)
    extends BlockName {
  override def toString: String = s"shuffle_${shuffle}_${map}_$reduce"
}
private[level0] final case class RddBlock(rdd: Int, split: Int) extends BlockName {
  override def toString: String = s"rdd_${rdd}_$split"
}

/** No name of a block that a service has. */
private[level0] final case class StrangeName(name: String) extends BlockName {
  override def toString: String = name
}

/** One call of Spark's `OneForOneBlockFetcher`. */
private[level0] final case class FetchByClient(
    app: Int,
    exec: Int,
    blocks: List[OutputBlock])
    extends Operation

/** Asks for the second block of a stream first. */
private[level0] final case class OutOfOrder(
    app: Int,
    exec: Int,
    shuffle: Int,
    wanted: Wanted,
    on: Int = 0)
    extends Operation

private[level0] final case class LocalDirs(app: Int, execs: List[String], on: Int = 0)
    extends Operation

private[level0] final case class RemoveOutput(
    app: Int,
    exec: Int,
    shuffle: Int,
    map: Long,
    on: Int = 0)
    extends Operation

private[level0] final case class RemoveRdd(
    app: Int,
    exec: Int,
    rdd: Int,
    split: Int,
    on: Int = 0)
    extends Operation

/** A file of an executor that is no block. */
private[level0] final case class RemoveForeign(app: Int, exec: Int, on: Int = 0)
    extends Operation

/** The cluster manager says that an executor has ended. Only Spark's own service hears of it. */
private[level0] final case class EndExecutor(app: Int, exec: Int) extends Operation

/** `merge` -1: whichever is current. It has no answer. */
private[level0] final case class RemoveMerge(
    app: Int,
    attempt: Int,
    shuffle: Int,
    merge: Int,
    on: Int = 0)
    extends Operation

/** `seen`: the checksum of the reader. */
private[level0] final case class Diagnose(
    app: Int,
    exec: Int,
    shuffle: Int,
    map: Long,
    reduce: Int,
    seen: Long,
    algorithm: String,
    on: Int = 0)
    extends Operation

/** The cluster manager removes the application, or Lodestone's own message does. */
private[level0] final case class End(app: Int) extends Operation
