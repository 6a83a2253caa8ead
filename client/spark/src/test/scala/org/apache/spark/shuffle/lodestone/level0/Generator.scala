// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.util.SplittableRandom

import scala.collection.mutable

/**
 * Draws operations of a few applications at a time, most of which make sense in this moment. The
 * same seed gives the same operations as long as the services agree.
 */
private[level0] final class Generator(seed: Long, world: World) {
  import Generator._

  private val dice = new SplittableRandom(seed)
  private val apps = Array.tabulate(Apps)(identity)
  private var nextApp = Apps
  private val shuffles = mutable.Map[Int, Int]().withDefaultValue(0)

  def next(): Operation = {
    val isStranger = chance(1, 50)
    val app = if (isStranger) stranger() else apps(dice.nextInt(Apps))
    val isNew = world.app(app).executors.isEmpty && chance(9, 10)
    kinds(dice.nextInt(kinds.size)) match {
      // Executors do not register with an application that has ended.
      case 'r' | 'o' | 'd' | 'q' if isStranger => localDirs(app)
      case _ if isNew && !isStranger => register(app)
      case 'r' => register(app)
      case 'o' => writeOutput(app)
      case 'd' => writeRdd(app)
      case 'p' => push(app)
      case 't' => together(app)
      case 'c' => byClient(app)
      case 'h' => held(app)
      case 'f' => finalizeMerge(app)
      case 'm' => readMerged(app)
      case 'k' => readChunk(app)
      case 'b' => fetch(app)
      case 'n' => open(app)
      case 'y' => FetchByClient(app, exec(app), outputBlocks(app).distinct)
      case 'x' => outOfOrder(app)
      case 'l' => localDirs(app)
      case 'v' => remove(app)
      case 'w' => removeMerge(app)
      case 'g' => diagnose(app)
      case 'q' => EndExecutor(app, exec(app))
      case _ => end(app)
    }
  }

  private def chance(times: Int, of: Int): Boolean = dice.nextInt(of) < times
  private def on(): Int = dice.nextInt(Service.Connections)
  private def oneOf[T](some: Seq[T]): T = some(dice.nextInt(some.size))

  /** An application that has ended, or never was. */
  private def stranger(): Int = {
    val ended = dice.nextInt(nextApp)
    if (apps.contains(ended)) -1 else ended
  }

  private def register(app: Int): Operation = {
    val current = world.app(app).merging.map(_.attempt)
    val attempt = current match {
      case None => oneOf(Seq(-1, 1, 1))
      case Some(one) => if (chance(1, 12)) one + 1 else if (chance(1, 10)) one - 1 else one
    }
    val isFirst = current.forall(_ < attempt)
    Register(
      app,
      dice.nextInt(Execs),
      math.max(attempt, -1),
      pushes = !chance(1, 15),
      hasMergeDirs = !isFirst || !chance(1, 20),
      manager = if (chance(1, 10)) "org.example.OtherManager" else SortManager,
      on = on())
  }

  private def exec(app: Int): Int = {
    val known = world.app(app).executors.toSeq
    if (known.isEmpty || chance(1, 25)) dice.nextInt(Execs) else oneOf(known)
  }

  /** An executor that writes, and has not ended. */
  private def writer(app: Int): Option[Int] =
    Some(exec(app)).filterNot(world.app(app).endedExecutors)

  private def attempt(app: Int): Int = {
    val current = world.app(app).merging.map(_.attempt).getOrElse(-1)
    if (chance(1, 40)) current + oneOf(Seq(-1, 1)) else current
  }

  /** One of the newest shuffles. */
  private def shuffle(app: Int): Int = {
    if (chance(1, 60)) shuffles(app) += 1
    math.max(0, shuffles(app) - dice.nextInt(3))
  }

  private def merge(app: Int, shuffle: Int): Int = {
    val current = world.app(app).shuffles.get(shuffle).map(_.merge).getOrElse(0)
    if (chance(1, 30)) current + 1
    else if (chance(1, 30)) math.max(0, current - 1)
    else current
  }

  private def reduce(): Int =
    if (chance(1, 120)) Content.LargeReduce else dice.nextInt(Content.LargeReduce)

  private def push(app: Int): Push = {
    val one = shuffle(app)
    val variant = if (chance(1, 30)) 1 else 0
    Push(
      app,
      attempt(app),
      one,
      merge(app, one),
      dice.nextInt(Maps),
      reduce(),
      variant,
      on())
  }

  /** Pushes of one shuffle that are taken, on different connections. */
  private def together(app: Int): Operation = {
    val first = push(app)
    if (!isOpen(first)) first
    else Together(
      app,
      List.tabulate(2 + dice.nextInt(4)) { number =>
        first.copy(
          map = dice.nextInt(Maps),
          reduce = dice.nextInt(Content.LargeReduce),
          variant = if (chance(1, 10)) 1 else 0,
          on = (first.on + number) % Service.Connections)
      })
  }

  private def isOpen(push: Push): Boolean =
    world.verdict(push) == World.Takes && world.app(push.app).merging.exists(_.hasDirs)

  private def byClient(app: Int): Operation = {
    val first = push(app)
    val isRefusedWithCode = Seq(World.TooLate, World.Stale).contains(world.verdict(first))
    if (!isOpen(first) && !isRefusedWithCode) first
    else {
      val blocks = List.tabulate(1 + dice.nextInt(5))(_ =>
        first.copy(map = dice.nextInt(Maps), reduce = dice.nextInt(3), variant = 0))
      PushByClient(
        app,
        blocks.groupBy(one => (one.map, one.reduce)).toSeq.sortBy(_._1)
          .map(_._2.head).toList)
    }
  }

  /** A push that stands still, while others come to its shuffle. */
  private def held(app: Int): Operation = {
    val one = push(app)
    if (!canBeHeld(world, one)) one
    else {
      val inner = List.fill(dice.nextInt(4)) {
        dice.nextInt(10) match {
          case 0 => Finalize(app, one.attempt, one.shuffle, one.merge, on())
          case 1 => RemoveMerge(app, one.attempt, one.shuffle, one.merge, on())
          case 2 => Register(app, 0, one.attempt + dice.nextInt(2), on = on())
          case 3 => one.copy(merge = one.merge + 1, on = on())
          case 4 => one.copy(on = on(), variant = 1 - one.variant)
          case 5 => one.copy(on = on())
          case _ => one.copy(map = dice.nextInt(Maps), on = on())
        }
      }
      val sent = 1 + dice.nextInt(one.bytes.length - 1)
      Held(app, one, sent, inner, isTorn = chance(1, 2), deletesLate = chance(1, 2))
    }
  }

  private def finalizeMerge(app: Int): Operation = {
    val one = shuffle(app)
    if (chance(1, 2) && one == shuffles(app)) shuffles(app) += 1
    val (id, current) = (merge(app, one), world.app(app).shuffles.get(one))
    // Spark's service refuses to finalize a later merge without pushes, and takes late ones.
    if (current.exists(known => known.isFinalized && known.merge < id)) {
      Push(app, attempt(app), one, id, dice.nextInt(Maps), reduce(), on = on())
    } else Finalize(app, attempt(app), one, id, on())
  }

  private def readMerged(app: Int): Operation = {
    val one = shuffle(app)
    ReadMerged(app, one, merge(app, one), anyReduce(), chance(1, 6), on())
  }

  private def anyReduce(): Int = dice.nextInt(Content.LargeReduce + 1)

  private def readChunk(app: Int): Operation = {
    val one = shuffle(app)
    ReadChunk(app, one, merge(app, one), anyReduce(), dice.nextInt(2), on())
  }

  private def writeRdd(app: Int): Operation = writer(app).fold(localDirs(app))(from =>
    WriteRdd(app, from, dice.nextInt(3), dice.nextInt(3), dice.nextInt(2000)))

  private def writeOutput(app: Int): Operation =
    writer(app).fold(localDirs(app))(writeOutput(app, _))

  private def writeOutput(app: Int, from: Int): Operation = {
    val lengths = List.fill(1 + dice.nextInt(5))(if (chance(1, 5)) 0 else dice.nextInt(3000))
    val wrongBy = if (chance(1, 4)) 1 else 0
    val map = if (chance(1, 40)) Int.MaxValue + dice.nextLong(5) else dice.nextLong(60)
    val shuffle = dice.nextInt(2)
    // Spark's service hangs when the offsets that it keeps are behind the end of a new file.
    val before = world.app(app).outputs.get((from, shuffle, map)).map(_.blocks.map(_.length).sum)
    val all = before.fold(lengths)(bytes => (lengths.head + bytes) :: lengths.tail)
    WriteOutput(app, from, shuffle, map, all, algorithm(), wrongBy)
  }

  private def algorithm(): String =
    if (chance(4, 5)) "ADLER32" else oneOf(Seq("CRC32", "CRC32C"))

  private def output(app: Int, exec: Int): (Int, Long) = {
    val known = world.app(app).outputs.keys.filter(_._1 == exec).toSeq.sorted
    if (known.isEmpty || chance(1, 12)) (dice.nextInt(2), dice.nextLong(60))
    else oneOf(known.map(key => (key._2, key._3)))
  }

  private def reduces(): List[Int] =
    List.tabulate(6)(identity).filter(one => if (one < 3) chance(1, 2) else chance(1, 8)) match {
      case Nil => List(0)
      case some => some
    }

  private def fetch(app: Int): Operation = {
    val isBatch = chance(1, 4)
    val from = exec(app)
    val (shuffle, _) = output(app, from)
    val wanted = List.fill(1 + dice.nextInt(3))(output(app, from)._2).map { map =>
      val start = dice.nextInt(3)
      val end = if (chance(1, 30)) start else start + 1 + dice.nextInt(3)
      Wanted(map, if (isBatch) List(start, end) else reduces())
    }
    Fetch(app, from, shuffle, wanted, isBatch, chance(1, 8), on())
  }

  private def outputBlocks(app: Int): List[OutputBlock] = {
    val from = exec(app)
    val (shuffle, _) = output(app, from)
    List.fill(1 + dice.nextInt(4)) {
      val (_, map) = output(app, from)
      OutputBlock(shuffle, math.min(map, Int.MaxValue.toLong), dice.nextInt(4))
    }
  }

  private def open(app: Int): Operation = {
    val from = exec(app)
    val rdds = List.fill(1 + dice.nextInt(3))(RddBlock(dice.nextInt(3), dice.nextInt(3)))
    val (shuffle, long) = output(app, from)
    val blocks: List[BlockName] = dice.nextInt(12) match {
      case 11 => List(StrangeName(oneOf(strangeNames)))
      case 10 => OutputBlock(shuffle, 1, 0) :: List(StrangeName(oneOf(strangeNames)))
      case 0 => rdds ::: outputBlocks(app)
      case 1 => OutputBlock(shuffle, long, 0) :: outputBlocks(app)
      case 2 | 3 | 4 => rdds
      case _ => outputBlocks(app)
    }
    Open(app, from, blocks, on())
  }

  private def outOfOrder(app: Int): Operation = {
    val from = exec(app)
    val (shuffle, map) = output(app, from)
    OutOfOrder(app, from, shuffle, Wanted(map, List(0, 1)), on())
  }

  private def localDirs(app: Int): Operation = {
    // Spark 4.1 refuses a name that comes twice, and its clients send none.
    val execs = List.fill(1 + dice.nextInt(3))(exec(app).toString).distinct
    LocalDirs(app, if (chance(1, 2)) ExecutorFiles.Merger :: execs else execs, on())
  }

  private def remove(app: Int): Operation = {
    val from = exec(app)
    val (shuffle, map) = output(app, from)
    dice.nextInt(4) match {
      case 0 => RemoveForeign(app, from, on())
      case 1 => RemoveRdd(app, from, dice.nextInt(3), dice.nextInt(3), on())
      case _ => RemoveOutput(app, from, shuffle, map, on())
    }
  }

  /** Spark sends it for shuffles whose blocks are pushed, and not before executors register. */
  private def removeMerge(app: Int): Operation = {
    val one = shuffle(app)
    val isMerging = world.app(app).merging.isDefined || world.app(app).executors.isEmpty
    if (!isMerging) localDirs(app)
    else RemoveMerge(app, attempt(app), one, if (chance(1, 2)) -1 else merge(app, one), on())
  }

  private def diagnose(app: Int): Operation = {
    val from = exec(app)
    val (shuffle, map) = output(app, from)
    val reduce = dice.nextInt(4)
    val known = world.app(app).outputs.get((from, shuffle, map))
    val sums = known.fold(Seq[String]())(_.sums.keys.toSeq.sorted)
    val isKept = chance(9, 10) && sums.nonEmpty
    val algorithm = oneOf(if (isKept) sums else Seq("ADLER32", "CRC32", "CRC32C", "MD5"))
    val block = known.flatMap(_.read(reduce, reduce + 1))
    val now = block.fold(0L)(Content.checksum(algorithm, _))
    val written = known.flatMap(_.sums.get(algorithm)).flatMap(_.of.lift(reduce))
    val seen = if (chance(1, 2)) written.getOrElse(now) else now + dice.nextInt(2)
    Diagnose(app, from, shuffle, map, reduce, seen, algorithm, on())
  }

  private def end(app: Int): Operation = {
    val at = apps.indexOf(app)
    if (at >= 0) {
      apps(at) = nextApp
      nextApp += 1
    }
    End(app)
  }
}

private[level0] object Generator {
  private val Apps = 3
  private val Execs = 4
  private val Maps = 12
  private val SortManager = "org.apache.spark.shuffle.sort.SortShuffleManager"

  private val strangeNames =
    Seq("rdd_1_0_0", "rdd_1", "broadcast_0", "shuffle_0_1", "shuffle_0_x_1", "shuffle_0_1_2_3_4")

  /** A letter for each kind, as often as it is drawn. */
  private val kinds: String = Seq(
    'r' -> 20,
    'o' -> 45,
    'd' -> 10,
    'p' -> 330,
    't' -> 30,
    'c' -> 15,
    'h' -> 30,
    'f' -> 40,
    'm' -> 120,
    'k' -> 25,
    'b' -> 130,
    'n' -> 50,
    'y' -> 10,
    'x' -> 10,
    'l' -> 30,
    'v' -> 15,
    'w' -> 12,
    'g' -> 40,
    'q' -> 2,
    'e' -> 3).flatMap { case (kind, times) => Seq.fill(times)(kind) }.mkString

  /** A block that its service takes, and that Spark's service owns its partition for. */
  def canBeHeld(world: World, push: Push): Boolean = {
    val known = world.app(push.app)
    val current = known.shuffles.get(push.shuffle)
    world.verdict(push) == World.Takes && known.merging.exists(_.hasDirs) &&
    current.exists(_.merge == push.merge) && push.bytes.length > 1 &&
    current.flatMap(_.partitions.get(push.reduce)).forall(at =>
      !at.sparks.has(push.map) && !at.ours.has(push.map) && at.held.isEmpty)
  }
}
