// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

/**
 * A difference that is meant: Lodestone does better than Spark's service, or differs in what no
 * client of Spark notices. `shown` are operations that show it; a test checks that they do.
 */
private[level0] sealed abstract class Improvement(
    val name: String,
    val reason: String,
    val shown: List[Operation])

private[level0] object Improvement {
  private val register = Register(0, 0, 1)
  private def push(map: Int, reduce: Int = 0, variant: Int = 0, on: Int = 0, shuffle: Int = 0) =
    Push(0, 1, shuffle, 0, map, reduce, variant, on)
  private def written(shuffle: Int, map: Long) = WriteOutput(0, 0, shuffle, map, List(10, 20, 30))

  /** A map whose block for this partition has bytes, or has none. */
  private def mapOf(reduce: Int, isEmpty: Boolean): Int = Iterator
    .from(0)
    .find(map =>
      (Content.lengthOf(push(map, reduce)) < 20) == isEmpty &&
        (!isEmpty || Content.lengthOf(push(map, reduce)) == 0))
    .get
  private val some = mapOf(0, isEmpty = false)
  private val other =
    Iterator.from(some + 1).find(map => Content.lengthOf(push(map)) > 20).get
  private val empty = mapOf(0, isEmpty = true)

  case object Queued extends Improvement(
        "colliding blocks are both merged",
        "Spark's service refuses a block while another one of its partition arrives, and the " +
          "block is never pushed again: its readers fetch the original",
        List(register, push(20), Held(0, push(some), 5, List(push(other, on = 1)), false)))

  case object KeptWhenTorn extends Improvement(
        "a block that was acknowledged is merged",
        "while a copy of a block arrives, Spark's service acknowledges a second copy and drops " +
          "it; if the first copy is torn, it has neither",
        List(
          register,
          push(20),
          Held(0, push(some), 5, List(push(some, on = 1)), isTorn = true),
          Finalize(0, 1, 0, 0)))

  case object RepeatedFinalize extends Improvement(
        "a repeated finalize gets the same statuses",
        "the answer to the first one may have been lost",
        List(register, push(some), Finalize(0, 1, 0, 0), Finalize(0, 1, 0, 0)))

  case object LaterMergeFinalized extends Improvement(
        "the merge of a repeated stage is finalized before any block comes",
        "Spark's service refuses it after a finalize of the stage's first merge; the driver " +
          "takes a refusal for empty statuses",
        List(register, push(some), Finalize(0, 1, 0, 0), Finalize(0, 1, 0, 1)))

  case object ConnectionKept extends Improvement(
        "a refused push leaves the connection open",
        "Spark's service closes the connection, which other tasks of the executor use as well",
        List(register, push(some).copy(attempt = 0), push(some)))

  case object MakesDirectories extends Improvement(
        "merge directories are made",
        "Spark's service refuses all pushes where the executors' merge directories are missing",
        List(register.copy(hasMergeDirs = false), push(some), Finalize(0, 1, 0, 0)))

  case object EmptyBlock extends Improvement(
        "an empty block is acknowledged and not recorded",
        "Spark's service may name a map in the status of a partition without a chunk that has " +
          "it; Spark's writers push no empty blocks, and its readers skip them",
        List(register, push(empty), Finalize(0, 1, 0, 0), ReadMerged(0, 0, 0, 0)))

  case object NotBeforeFinalize extends Improvement(
        "merged data is not shown before it is finalized",
        "Spark's service shows files that still change, and keeps their offsets; the driver " +
          "names merged partitions only after they are finalized",
        register :: List.tabulate(6)(push(_, Content.LargeReduce)) :::
          List(ReadMerged(0, 0, 0, Content.LargeReduce)))

  case object NotIntoNothing extends Improvement(
        "a block of an attempt that was replaced meanwhile is refused",
        "Spark's service may acknowledge a block that it wrote into a deleted file",
        List(
          register,
          push(20),
          Held(
            0,
            push(some),
            5,
            List(Register(0, 1, 2, on = 1)),
            isTorn = false,
            deletesLate = true)))

  case object RefusedAtOpen extends Improvement(
        "a stream of an executor that is not registered is refused as a whole",
        "Spark's service opens it and refuses each block; the task fails in the same way",
        List(register, Fetch(0, 7, 0, List(Wanted(1, List(0))))))

  case object ServedAfterMissing extends Improvement(
        "blocks after a missing one are served",
        "the iterator of Spark's service stands still at the block that is missing",
        List(
          register,
          written(0, 1),
          Fetch(0, 0, 0, List(Wanted(9, List(0)), Wanted(1, List(0, 1))))))

  case object WrittenAgain extends Improvement(
        "a map output that was written again is read with its new offsets",
        "Spark's service keeps the offsets of the first file; map ids repeat with " +
          "spark.shuffle.useOldFetchProtocol",
        List(
          register,
          written(0, 1),
          Fetch(0, 0, 0, List(Wanted(1, List(0, 1)))),
          written(0, 1).copy(lengths = List(400, 1, 7)),
          Fetch(0, 0, 0, List(Wanted(1, List(0, 1))))))

  case object NothingForEmpty extends Improvement(
        "a batch without partitions is refused, and each block of a removed output",
        "Spark's service answers with no bytes if it has kept the offsets; Spark asks for neither",
        List(register, written(0, 1), Fetch(0, 0, 0, List(Wanted(1, List(1, 1))), isBatch = true)))

  case object MixedNames extends Improvement(
        "one old request may name blocks of several shuffles, and rdd blocks",
        "Spark's service refuses the request",
        List(
          register,
          written(0, 1),
          written(1, 2),
          WriteRdd(0, 0, 3, 4, 100),
          Open(0, 0, List(OutputBlock(0, 1, 0), OutputBlock(1, 2, 0), RddBlock(3, 4)))))

  case object LongMapId extends Improvement(
        "an old request may name a map id that has more than 31 bits",
        "Spark's service refuses the request",
        List(
          register,
          written(0, Int.MaxValue + 7L),
          Open(0, 0, List(OutputBlock(0, Int.MaxValue + 7L, 1)))))

  case object ForeignKept extends Improvement(
        "RemoveBlocks removes blocks only",
        "Spark's service deletes any file that the request names; Spark names blocks",
        List(register, RemoveForeign(0, 0)))

  case object Crc32c extends Improvement(
        "CRC32C is diagnosed for each Spark",
        "Spark's service knows it since 4.0, and the daemon serves all lines",
        List(
          register,
          written(0, 1).copy(algorithm = "CRC32C"),
          Diagnose(0, 0, 0, 1, 1, 4711, "CRC32C")))

  case object DirectoriesKept extends Improvement(
        "the directories of executors stay at the end of an application",
        "Spark's service deletes them where a Worker says so, which deletes them itself as well; " +
          "on YARN their NodeManager does. A client could name any directory",
        List(register, written(0, 1), End(0)))

  case object FilesKept extends Improvement(
        "files of an executor that has ended stay until the application ends",
        "Spark's service deletes those that are no blocks where a Worker of its process says so; " +
          "no message of Spark's says so to another service",
        List(register, written(0, 1), EndExecutor(0, 0)))

  /** A method: objects of the list may be made before this one. */
  def all: List[Improvement] = List(
    Queued,
    KeptWhenTorn,
    RepeatedFinalize,
    LaterMergeFinalized,
    ConnectionKept,
    MakesDirectories,
    EmptyBlock,
    NotBeforeFinalize,
    NotIntoNothing,
    RefusedAtOpen,
    ServedAfterMissing,
    WrittenAgain,
    NothingForEmpty,
    MixedNames,
    LongMapId,
    ForeignKept,
    DirectoriesKept,
    FilesKept,
    Crc32c)
}
