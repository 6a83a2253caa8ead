// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

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
    // Spark's service names maps without bytes.
    val errors = error(masked(sparks, at), at.sparks) ++ error(ours, at.ours)
    check(read, s"whole chunks: $errors", errors.isEmpty, sparks, ours)
    if (at.ours.maps.isEmpty) check(read, "nothing", isRefusal(ours), sparks, ours)
    if (at.isSameOrder && at.sparks.nonEmptyMaps == at.ours.maps) {
      val areEqual = chunksOf(masked(sparks, at)) == chunksOf(ours)
      check(read, "the same chunks", areEqual, sparks, ours)
    }
  }

  private def chunksOf(answer: Answer): Seq[Chunk] = answer match {
    case Merged(chunks) => chunks
    case _ => Nil
  }

  private def masked(answer: Answer, at: World.Partition): Answer = answer match {
    case Merged(chunks) =>
      Merged(chunks.map(one => one.copy(maps = one.maps -- at.sparks.emptyMaps)))
    case other => other
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
    val expected = fetch.wanted.flatMap { wanted =>
      val ranges = wanted.reduces match {
        case Seq(from, until) if fetch.isBatch => List((from, until))
        case reduces => reduces.map(reduce => (reduce, reduce + 1))
      }
      ranges.map { case (from, until) =>
        part(fetch.app, fetch.exec, fetch.shuffle, wanted.map, from, until)
      }
    }
    stream(fetch, fetch.exec, expected, sparks, ours)
  }

  private def part(app: Int, exec: Int, shuffle: Int, map: Long, from: Int, until: Int)
      : Expected = new Expected.Part(
    world.kept,
    KeptOffsets.Range(KeptOffsets.Key(app, exec, shuffle, map), from, until),
    world.app(app).outputs.get((exec, shuffle, map)))

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
    case OutputBlock(shuffle, map, reduce) => part(app, exec, shuffle, map, reduce, reduce + 1)
    case RddBlock(rdd, split) => new Expected.Whole(world.app(app).rdds.get((exec, rdd, split)))
    case StrangeName(_) => new Expected.Whole(None)
  }

  /** Spark's client gives up all blocks after the first one that it does not get. */
  def byClient(fetch: FetchByClient, sparks: Answer, ours: Answer): Unit = {
    val expected = fetch.blocks.map(expectedBlock(fetch.app, fetch.exec, _))
    val isKnown = isRegistered(fetch.app, fetch.exec)
    val mayMiss = !isKnown || expected.exists(_.mayBeRefused)
    val areEqual = expected.forall(_.isAsWritten)
    val isWhole = isKnown && expected.forall(_.bytes.isDefined)
    val (theirs, own) = (partsOf(sparks), partsOf(ours))
    val isSo = theirs.size == expected.size && own.size == expected.size &&
      expected.zip(theirs.zip(own)).forall { case (wanted, (their, own)) =>
        val isTheirs = if (isRefusal(their)) mayMiss else isKnown && wanted.mayBe(their)
        val isOurs = wanted.is(own) || isRefusal(own) && !isWhole
        val isEqual = isRefusal(their) && isRefusal(own) || their == own
        isTheirs && isOurs && (isEqual || !areEqual)
      }
    check(fetch, "the same", isSo, sparks, ours)
    if (isKnown) expected.zip(theirs).foreach { case (wanted, their) => wanted.observe(their) }
  }

  def outOfOrder(out: OutOfOrder, sparks: Answer, ours: Answer): Unit = {
    val (map, reduce) = (out.wanted.map, out.wanted.reduces.head)
    val first = part(out.app, out.exec, out.shuffle, map, reduce, reduce + 1)
    if (isRegistered(out.app, out.exec)) {
      val isSo = (sparks, ours) match {
        case (Each(Seq(their, second)), Each(Seq(own, ownSecond))) =>
          val isOurs = if (first.bytes.isDefined) first.is(own) else isRefusal(own)
          refused(second, ownSecond) && isOurs &&
          (if (isRefusal(their)) first.mayBeRefused else first.mayBe(their))
        case _ => false
      }
      check(out, "only the first block is served", isSo, sparks, ours)
      first.observe(partsOf(sparks).head)
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
      // The connection may end at a missing block, and with it the blocks before it.
      val firstMissing = expected.indexWhere(_.mayBeRefused)
      expected.zip(theirs).zipWithIndex.foreach { case ((wanted, their), number) =>
        val isSo = if (isRefusal(their)) firstMissing >= 0 else wanted.mayBe(their)
        check(operation, s"block $number as it was written", isSo, sparks, ours)
        noteStream(wanted, their, firstMissing >= 0 && number > firstMissing)
        wanted.observe(their)
      }
    }
  }

  private def noteStream(wanted: Expected, their: Answer, isAfterMissing: Boolean): Unit =
    if (!isRefusal(their) && wanted.bytes.isEmpty) note(Improvement.NothingForEmpty)
    else if (wanted.mayBeOld && !wanted.is(their)) note(Improvement.WrittenAgain)
    else if (isRefusal(their) && wanted.bytes.isDefined && isAfterMissing) {
      note(Improvement.ServedAfterMissing)
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

/** A block that a reader asks for. */
private[level0] sealed trait Expected {

  /** What is there. */
  def bytes: Option[Array[Byte]]

  /** What Spark's service may make of it now. */
  protected def sparks: Seq[KeptOffsets.Possible]
  def mayBeOld: Boolean
  def observe(answer: Answer): Unit

  def is(answer: Answer): Boolean = answer match {
    case Answer.Block(found) => KeptOffsets.Possible(bytes).is(found)
    case _ => false
  }

  def mayBe(answer: Answer): Boolean = answer match {
    case Answer.Block(found) => sparks.exists(_.is(found))
    case _ => false
  }

  def mayBeRefused: Boolean = sparks.exists(_.bytes.isEmpty)

  /** True if Spark's service can have no other answer than Lodestone. */
  def isAsWritten: Boolean = sparks.forall { one =>
    if (bytes.isEmpty) one.bytes.isEmpty else bytes.exists(one.is)
  }
}

private[level0] object Expected {

  /** A block whose file is all of it. */
  final class Whole(override val bytes: Option[Array[Byte]]) extends Expected {
    override protected def sparks: Seq[KeptOffsets.Possible] = Seq(KeptOffsets.Possible(bytes))
    override def mayBeOld: Boolean = false
    override def observe(answer: Answer): Unit = ()
  }

  /** Partitions of a map output. */
  final class Part(kept: KeptOffsets, range: KeptOffsets.Range, output: Option[World.Output])
      extends Expected {
    override val bytes: Option[Array[Byte]] = output.flatMap(_.read(range.from, range.until))
    override protected def sparks: Seq[KeptOffsets.Possible] = kept.answers(range, output)
    override def mayBeOld: Boolean = output.exists(kept.mayBeOld(range.key, _))
    override def observe(answer: Answer): Unit = kept.observe(range, output, answer)
  }
}

/** Checks that chunks are made of acknowledged blocks, all of them, and end where they should. */
private[level0] final class ChunkCheck(merges: World.Merges) {
  private val ChunkBytes = 2 * 1024 * 1024

  def error(chunks: Seq[Answer.Chunk]): Option[String] = {
    val named = chunks.map(_.maps)
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
