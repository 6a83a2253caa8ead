// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import scala.collection.mutable

/**
 * What the operations so far should have led to. The generator chooses by it. The comparison knows
 * from it which blocks a service has acknowledged, and which answers an order leaves open.
 */
private[level0] final class World {
  private val apps = mutable.Map[Int, World.App]()

  /** Spark's service has them longer than its applications. */
  val kept = new KeptOffsets

  def app(number: Int): World.App = apps.getOrElseUpdate(number, new World.App)

  def numbers: Seq[Int] = apps.keys.toSeq.sorted

  def end(number: Int): Unit = apps(number) = new World.App

  /** How a push would be answered now. */
  def verdict(push: Push): World.Verdict = {
    val known = app(push.app)
    known.merging match {
      case None => World.NotRegistered
      case Some(merging) if merging.attempt != push.attempt => World.OtherAttempt
      case _ => known.shuffles.get(push.shuffle) match {
          case Some(current) if current.merge > push.merge => World.Stale
          case Some(current) if current.merge == push.merge && current.isFinalized => World.TooLate
          case _ => World.Takes
        }
    }
  }

  /** The partition that a push goes to, in a shuffle that begins with it if need be. */
  def partition(push: Push): World.Partition =
    shuffle(push).partitions.getOrElseUpdate(push.reduce, new World.Partition)

  private def shuffle(push: Push): World.Shuffle = {
    val shuffles = app(push.app).shuffles
    val current = shuffles.get(push.shuffle).filter(_.merge >= push.merge)
    val found = current.getOrElse(new World.Shuffle(push.merge))
    shuffles(push.shuffle) = found
    found
  }

  def register(register: Register): Unit = {
    val known = app(register.app)
    known.executors += register.exec
    if (register.pushes) {
      val isNew = known.merging.forall(_.attempt < register.attempt)
      if (isNew) {
        known.merging = Some(World.Merging(register.attempt, register.hasMergeDirs))
        known.shuffles.clear()
      } else if (register.hasMergeDirs) {
        // Executors of one host share these directories.
        known.merging = known.merging.map { merging =>
          if (merging.attempt == register.attempt) merging.copy(hasDirs = true) else merging
        }
      }
    }
  }

  /** Finalizes if the request is taken. */
  def finalizeMerge(request: Finalize): World.Ending = {
    val known = app(request.app)
    val isOwn = known.merging.exists(_.attempt == request.attempt)
    known.shuffles.get(request.shuffle) match {
      case _ if !isOwn => World.Refused
      case Some(current) if current.merge > request.merge => World.Refused
      case Some(current) if current.merge == request.merge && current.isRemoved => World.Refused
      case Some(current) if current.merge == request.merge && current.isFinalized =>
        World.Repeated(current)
      case Some(current) if current.merge == request.merge =>
        current.isFinalized = true
        World.Finalized(current)
      case before =>
        val empty = new World.Shuffle(request.merge)
        empty.isFinalized = true
        known.shuffles(request.shuffle) = empty
        if (before.exists(_.isFinalized)) World.LaterMerge else World.Finalized(empty)
    }
  }

  def removeMerge(request: RemoveMerge): Unit = {
    val known = app(request.app)
    val isOwn = known.merging.exists(_.attempt == request.attempt)
    val current = known.shuffles.get(request.shuffle)
    val merge = if (request.merge >= 0) Some(request.merge) else current.map(_.merge)
    merge.filter(id => isOwn && current.forall(_.merge <= id)).foreach { id =>
      val tombstone = new World.Shuffle(id)
      tombstone.isFinalized = true
      tombstone.isRemoved = true
      known.shuffles(request.shuffle) = tombstone
    }
  }

  /** A partition that may be read, if there is one with this name. */
  def merged(app: Int, shuffle: Int, merge: Int, reduce: Int): World.Reading = {
    val current = this.app(app).shuffles.get(shuffle).filter(_.merge == merge)
    current match {
      case Some(one) if one.isRemoved => World.Nothing
      case Some(one) if !one.isFinalized => World.NotFinalized
      case Some(one) => one.partitions.get(reduce).fold[World.Reading](World.Nothing)(World.Whole)
      case None => World.Nothing
    }
  }
}

private[level0] object World {

  final class App {
    var merging: Option[Merging] = None
    val executors: mutable.SortedSet[Int] = mutable.SortedSet()
    val endedExecutors: mutable.Set[Int] = mutable.Set()
    val shuffles: mutable.Map[Int, Shuffle] = mutable.Map()
    val outputs: mutable.Map[(Int, Int, Long), Output] = mutable.Map()
    val rdds: mutable.Map[(Int, Int, Int), Array[Byte]] = mutable.Map()

    def outputsOf(exec: Int): Iterable[Output] =
      outputs.collect { case ((of, _, _), output) if of == exec => output }
  }

  /** The attempt whose blocks are merged. */
  final case class Merging(attempt: Int, hasDirs: Boolean)

  final class Shuffle(val merge: Int) {
    var isFinalized = false
    var isRemoved = false
    val partitions: mutable.Map[Int, Partition] = mutable.Map()

    /** What a service should report, by what it has acknowledged. */
    def statuses(of: Partition => Merges): Map[Int, (Set[Int], Long)] =
      partitions.toMap.map { case (reduce, partition) =>
        reduce -> ((of(partition).maps, of(partition).bytes))
      }.filter(_._2._1.nonEmpty)
  }

  /** A partition at both services, which may have merged different blocks. */
  final class Partition {
    val sparks = new Merges
    val ours = new Merges

    /** False if the services may have the same blocks in another order, or from another attempt. */
    var isSameOrder = true

    /** The map whose block is held at Spark's service. */
    var held: Option[Int] = None
  }

  /** The blocks that a service has acknowledged: of each map those that may be the one it has. */
  final class Merges {
    private val candidates = mutable.LinkedHashMap[Int, Seq[Array[Byte]]]()

    def maps: Set[Int] = candidates.keySet.toSet
    def nonEmptyMaps: Set[Int] = maps.filter(candidates(_).head.nonEmpty)
    def emptyMaps: Set[Int] = maps -- nonEmptyMaps
    def bytes: Long = candidates.values.map(_.head.length.toLong).sum
    def has(map: Int): Boolean = candidates.contains(map)
    def of(map: Int): Seq[Array[Byte]] = candidates.getOrElse(map, Nil)

    /** True if it was not there. */
    def add(push: Push): Boolean = {
      val isNew = !has(push.map)
      if (isNew) candidates(push.map) = Seq(push.bytes)
      isNew
    }

    /** Adds one of several blocks of a map, if none was there. */
    def addOneOf(pushes: Seq[Push]): Unit = pushes.headOption.foreach { first =>
      if (!has(first.map)) candidates(first.map) = pushes.map(_.bytes)
    }

    /** False if the bytes are not known, because one of several blocks was taken. */
    def hasKnownBytes: Boolean = candidates.values.forall(_.size == 1)
  }

  /** The files of a map output. `sums` are by algorithm: those of earlier files stay. */
  final class Output(val blocks: IndexedSeq[Array[Byte]], var sums: Map[String, Sums]) {
    val offsets: IndexedSeq[Int] = blocks.scanLeft(0)(_ + _.length)
    var isRemoved = false

    def bytes: Array[Byte] = blocks.foldLeft(Array.empty[Byte])(_ ++ _)

    /** Removes what Spark names. Returns the number of files at both services. */
    def remove(): (Int, Int) = {
      val files = if (isRemoved) 0 else 2
      val removed = sums.get(RemovedSums)
      isRemoved = true
      sums -= RemovedSums
      (files + removed.count(_.areAtSparks), files + removed.size)
    }

    /** The bytes of partitions, if they are there. */
    def read(from: Int, until: Int): Option[Array[Byte]] = {
      val isInside = from >= 0 && from < until && until <= blocks.length
      if (isRemoved || !isInside) None
      else Some(blocks.slice(from, until).foldLeft(Array.empty[Byte])(_ ++ _))
    }
  }

  /** The algorithm of the checksums that go with a map output. */
  val RemovedSums = "ADLER32"

  /** A file with a checksum of each partition. */
  final case class Sums(of: IndexedSeq[Long], areAtSparks: Boolean = true)

  sealed trait Verdict
  case object NotRegistered extends Verdict
  case object OtherAttempt extends Verdict
  case object Stale extends Verdict
  case object TooLate extends Verdict
  case object Takes extends Verdict

  sealed trait Ending
  case object Refused extends Ending
  final case class Finalized(shuffle: Shuffle) extends Ending
  final case class Repeated(shuffle: Shuffle) extends Ending

  /** A later merge than the one that is finalized, without a push. */
  case object LaterMerge extends Ending

  sealed trait Reading
  case object Nothing extends Reading
  case object NotFinalized extends Reading
  final case class Whole(partition: Partition) extends Reading
}
