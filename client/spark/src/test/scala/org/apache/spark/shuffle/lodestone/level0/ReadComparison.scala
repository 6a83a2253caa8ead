// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.util.{Arrays => JavaArrays}

/** Compares the answers to reads, with each other and with what was written or acknowledged. */
private[level0] final class ReadComparison(world: World, note: Improvement => Unit) {
  import Answer._

  def merged(read: ReadMerged, sparks: Answer, ours: Answer): Unit =
    world.merged(read.app, read.shuffle, read.merge, read.reduce) match {
      // Lodestone deletes files after it has answered.
      case World.Nothing if read.fromDisk => ()
      case World.Nothing =>
        check(read, "both refuse", isRefusal(sparks) && isRefusal(ours), sparks, ours)
      case World.NotFinalized =>
        if (!isRefusal(sparks)) note(Improvement.NotBeforeFinalize)
        check(read, "not yet", isRefusal(ours), sparks, ours)
      case World.Whole(partition) => whole(read, partition, sparks, ours)
    }

  private def whole(read: ReadMerged, at: World.Partition, sparks: Answer, ours: Answer): Unit = {
    val sides = Seq((sparks, at.sparks), (ours, at.ours))
    val errors = sides.flatMap { case (answer, merges) => error(answer, merges) }
    check(read, s"whole chunks: $errors", errors.isEmpty, sparks, ours)
    if (at.ours.maps.isEmpty) check(read, "nothing", isRefusal(ours), sparks, ours)
    if (at.isSameOrder && at.sparks.nonEmptyMaps == at.ours.maps) {
      check(read, "the same chunks", shapeOf(sparks, at) == shapeOf(ours, at), sparks, ours)
    }
  }

  private def shapeOf(answer: Answer, at: World.Partition): Seq[(Set[Int], Block)] =
    answer match {
      // Spark's service names maps without bytes.
      case Merged(chunks) => chunks.map(one => (one.maps & at.sparks.nonEmptyMaps, one.block))
      case _ => Nil
    }

  /** What is wrong with the chunks of a partition that has these blocks. */
  private def error(answer: Answer, merges: World.Merges): Option[String] = answer match {
    case Merged(chunks) => new ChunkCheck(merges).error(chunks)
    case _ if merges.nonEmptyMaps.isEmpty => None
    case other => Some(s"$other in place of ${merges.maps}")
  }

  /** Only of partitions that are not open. */
  def chunk(read: ReadChunk, sparks: Answer, ours: Answer): Unit = {
    val (theirs, own) = (onlyPart(sparks), onlyPart(ours))
    world.merged(read.app, read.shuffle, read.merge, read.reduce) match {
      case World.Whole(at) if at.isSameOrder && at.sparks.nonEmptyMaps == at.ours.maps =>
        check(read, "the same", theirs == own || refused(theirs, own), sparks, ours)
      case World.Whole(_) => ()
      case _ => check(read, "both refuse", refused(theirs, own), sparks, ours)
    }
  }

  private def refused(answers: Answer*): Boolean = answers.forall(isRefusal)

  private def onlyPart(answer: Answer): Answer = answer match {
    case Each(Seq(part)) => part
    case other => other
  }

  def fetch(fetch: Fetch, sparks: Answer, ours: Answer): Unit = {
    val outputs = world.app(fetch.app).outputs
    val wanted = fetch.wanted.flatMap {
      case Wanted(map, Seq(from, until)) if fetch.isBatch => List((map, from, until))
      case Wanted(map, reduces) => reduces.map(reduce => (map, reduce, reduce + 1))
    }
    val expected = wanted.map { case (map, from, until) =>
      val output = outputs.get((fetch.exec, fetch.shuffle, map))
      Expected(
        output.flatMap(_.read(from, until)),
        isKnownToSpark = !output.exists(_.isWrittenAgain),
        mayBeEmpty = from == until || output.exists(_.isRemoved))
    }
    stream(fetch, fetch.exec, expected, sparks, ours)
  }

  def open(open: Open, sparks: Answer, ours: Answer): Unit = {
    val expected = open.blocks.map(expectedBlock(open.app, open.exec, _))
    val areStrange = open.blocks.exists(_.isInstanceOf[StrangeName])
    val areMixed = open.blocks.map {
      case OutputBlock(shuffle, _, _) => shuffle
      case _ => -1
    }.distinct.size > 1
    val isLong = open.blocks.exists {
      case OutputBlock(_, map, _) => map > Int.MaxValue
      case _ => false
    }
    if (areStrange) {
      check(open, "both refuse the request", refused(sparks, ours), sparks, ours)
    } else if (areMixed || isLong) {
      if (areMixed) note(Improvement.MixedNames)
      if (isLong) note(Improvement.LongMapId)
      check(open, "refused by Spark's service", isRefusal(sparks), sparks, ours)
      own(open, open.exec, expected, ours)
    } else stream(open, open.exec, expected, sparks, ours)
  }

  private def expectedBlock(app: Int, exec: Int, name: BlockName): Expected = name match {
    case OutputBlock(shuffle, map, reduce) =>
      val output = world.app(app).outputs.get((exec, shuffle, map))
      Expected(
        output.flatMap(_.read(reduce, reduce + 1)),
        !output.exists(_.isWrittenAgain),
        output.exists(_.isRemoved))
    case RddBlock(rdd, split) => Expected(world.app(app).rdds.get((exec, rdd, split)))
    case StrangeName(_) => Expected(None)
  }

  /** Spark's client gives up all blocks after the first one that it does not get. */
  def byClient(fetch: FetchByClient, sparks: Answer, ours: Answer): Unit = {
    val expected = fetch.blocks.map(expectedBlock(fetch.app, fetch.exec, _))
    val isComparable = expected.forall(_.isKnownToSpark)
    val isSo = (sparks, ours) match {
      case (Each(theirs), Each(own)) => expected.zip(theirs.zip(own)).forall {
          case (wanted, (their, own)) =>
            val isEmpty = wanted.mayBeEmpty && their == Block(Array.empty)
            val isEqual = (isRefusal(their) || isEmpty) && isRefusal(own) || their == own
            (!isComparable || isEqual) && (isRefusal(own) || wanted.is(own))
        }
      case _ => false
    }
    val isWhole = expected.forall(_.bytes.isDefined) && isRegistered(fetch.app, fetch.exec)
    val isServed = !isWhole || expected.zip(partsOf(ours)).forall { case (one, own) => one.is(own) }
    check(fetch, "the same", isSo && isServed, sparks, ours)
  }

  def outOfOrder(out: OutOfOrder, sparks: Answer, ours: Answer): Unit = {
    val blocks = out.wanted.reduces.map(OutputBlock(out.shuffle, out.wanted.map, _))
    val first = expectedBlock(out.app, out.exec, blocks.head)
    if (isRegistered(out.app, out.exec) && first.isKnownToSpark) {
      val isSo = (sparks, ours) match {
        case (Each(Seq(own, second)), Each(Seq(ourOwn, ourSecond))) =>
          val isServed =
            if (first.bytes.isDefined) first.is(own) && first.is(ourOwn)
            else refused(ourOwn) && (refused(own) || first.mayBeEmpty)
          refused(second, ourSecond) && isServed
        case _ => false
      }
      check(out, "only the first block is served", isSo, sparks, ours)
    }
  }

  private def partsOf(answer: Answer): Seq[Answer] = answer match {
    case Each(parts) => parts
    case _ => Nil
  }

  private def isRegistered(app: Int, exec: Int): Boolean = world.app(app).executors(exec)

  /** The blocks of one stream. */
  private def stream(
      operation: Operation,
      exec: Int,
      expected: Seq[Expected],
      sparks: Answer,
      ours: Answer): Unit = {
    own(operation, exec, expected, ours)
    if (!isRegistered(operation.app, exec)) {
      if (isRefusal(ours) && !isRefusal(sparks)) note(Improvement.RefusedAtOpen)
      val areRefused = isRefusal(sparks) || partsOf(sparks).forall(isRefusal)
      check(operation, "nothing of this executor", areRefused, sparks, ours)
    } else {
      val theirs = partsOf(sparks)
      check(operation, "a stream", theirs.size == expected.size, sparks, ours)
      // With offsets that it has kept, Spark's service may miss a block that is there.
      val firstMissing = expected.indexWhere(one => one.bytes.isEmpty || !one.isKnownToSpark)
      expected.zip(theirs).zipWithIndex.foreach { case ((wanted, their), number) =>
        val isSo =
          if (!wanted.isKnownToSpark) {
            if (!wanted.is(their)) note(Improvement.WrittenAgain)
            true
          } else if (wanted.bytes.isEmpty) {
            if (wanted.mayBeEmpty && !isRefusal(their)) note(Improvement.NothingForEmpty)
            isRefusal(their) || wanted.mayBeEmpty && their == Block(Array.empty)
          } else if (firstMissing >= 0 && isRefusal(their)) {
            // The connection may end at a missing block, and with it the blocks before it.
            if (number > firstMissing) note(Improvement.ServedAfterMissing)
            true
          } else wanted.is(their)
        check(operation, s"block $number as it was written", isSo, sparks, ours)
      }
    }
  }

  /** Lodestone serves exactly what there is. */
  private def own(operation: Operation, exec: Int, expected: Seq[Expected], ours: Answer): Unit = {
    val isSo =
      if (isRegistered(operation.app, exec)) {
        val parts = partsOf(ours)
        parts.size == expected.size && expected.zip(parts).forall { case (wanted, own) =>
          if (wanted.bytes.isDefined) wanted.is(own) else PushComparison.isFailed(own)
        }
      } else isRefusal(ours)
    check(operation, "each block as it was written", isSo, "(not asked)", ours)
  }

  private def check(operation: Operation, expected: String, isSo: Boolean, sparks: Any, ours: Any)
      : Unit = if (!isSo) throw new Difference(operation, expected, sparks, ours)
}

/** A block that a reader asks for, if it is there. */
private[level0] final case class Expected(
    bytes: Option[Array[Byte]],
    isKnownToSpark: Boolean = true,
    mayBeEmpty: Boolean = false) {

  def is(answer: Answer): Boolean = answer match {
    case Answer.Block(found) => bytes.exists(JavaArrays.equals(_, found))
    case _ => false
  }
}

/** Checks that chunks are made of acknowledged blocks, all of them, and end where they should. */
private[level0] final class ChunkCheck(merges: World.Merges) {
  private val ChunkBytes = 2 * 1024 * 1024

  def error(chunks: Seq[Answer.Chunk]): Option[String] = {
    val named = chunks.map(_.maps & merges.nonEmptyMaps)
    val isOnce = named.map(_.size).sum == named.flatten.toSet.size
    if (named.flatten.toSet != merges.nonEmptyMaps || !isOnce) {
      Some(s"chunks of maps $named for ${merges.nonEmptyMaps}")
    } else {
      val ends = chunks.zip(named).map { case (chunk, maps) => lastBlock(chunk.block.bytes, maps) }
      val isCut = chunks.zip(ends).zipWithIndex.forall { case ((chunk, last), number) =>
        val length = chunk.block.bytes.length
        val isLong = length >= ChunkBytes || number == chunks.size - 1
        last.exists(end => isLong && length - end < ChunkBytes)
      }
      if (isCut) None else Some(s"chunks that end in blocks of $ends bytes")
    }
  }

  /** The length of the last block, if the bytes are exactly the blocks of these maps. */
  private def lastBlock(bytes: Array[Byte], maps: Set[Int]): Option[Int] = {
    def from(at: Int, left: Set[Int], last: Int): Option[Int] =
      if (left.isEmpty) { if (at == bytes.length) Some(last) else None }
      else {
        val here = for (map <- left.iterator; block <- merges.of(map).iterator
          if startsWith(bytes, at, block)) yield from(at + block.length, left - map, block.length)
        here.collectFirst { case Some(length) => length }
      }
    from(0, maps, 0)
  }

  private def startsWith(bytes: Array[Byte], at: Int, block: Array[Byte]): Boolean =
    block.length <= bytes.length - at && {
      var same = 0
      while (same < block.length && bytes(at + same) == block(same)) same += 1
      same == block.length
    }
}
