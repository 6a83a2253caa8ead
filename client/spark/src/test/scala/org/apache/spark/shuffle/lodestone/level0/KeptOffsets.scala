// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.util.{Arrays => JavaArrays}

import scala.collection.mutable

/**
 * The offsets of map outputs that Spark's service has read once. It keeps them until its end, also
 * when the files are removed or written again. Where an order of threads decides whether it has
 * read them, both may be so.
 */
private[level0] final class KeptOffsets {
  import KeptOffsets._

  private val possible = mutable.Map[Key, Set[Kept]]()

  /** What Spark's service may answer to a read of these partitions. */
  def answers(range: Range, output: Option[World.Output]): Seq[Possible] =
    states(range.key).toSeq.flatMap(answers(range, output, _))

  /** The offsets that Spark's service may find for these partitions, if any. */
  def found(range: Range, output: Option[World.Output]): Set[Option[(Int, Int)]] =
    states(range.key).map(found(range, output, _))

  /** True if Spark's service may have other offsets than those of the file that is there. */
  def mayBeOld(key: Key, output: World.Output): Boolean =
    states(key).exists(_.exists(_ != output.offsets))

  /** Spark's service has answered a block of a stream like this. */
  def observe(range: Range, output: Option[World.Output], answer: Answer): Unit = {
    val before = states(range.key)
    possible(range.key) = answer match {
      case Answer.Block(bytes) =>
        val isSo = (kept: Kept) => answers(range, output, kept).exists(_.is(bytes))
        before.filter(isSo).map(looked(_, output))
      // It may have failed before it came to this block.
      case _ => before ++ before.map(looked(_, output))
    }
  }

  /** Spark's service has looked for the output, whatever it answered. */
  def look(key: Key, output: Option[World.Output]): Unit =
    possible(key) = states(key).map(looked(_, output))

  private def states(key: Key): Set[Kept] = possible.getOrElse(key, Set(None))

  private def looked(kept: Kept, output: Option[World.Output]): Kept =
    kept.orElse(output.filter(!_.isRemoved).map(_.offsets))

  private def answers(range: Range, output: Option[World.Output], kept: Kept): Seq[Possible] = {
    val isThere = output.exists(!_.isRemoved)
    found(range, output, kept) match {
      case None => Seq(Refusal)
      case Some((from, until)) if isThere => Seq(Possible(output.map(_.bytes.slice(from, until))))
      // The file is not opened for no bytes.
      case Some((from, until)) if from == until => Seq(Possible(Some(Array.empty)), Refusal)
      case _ => Seq(Refusal)
    }
  }

  private def found(range: Range, output: Option[World.Output], kept: Kept): Option[(Int, Int)] =
    looked(kept, output)
      .filter(known => range.from >= 0 && range.until < known.size)
      .map(known => (known(range.from), known(range.until)))
}

private[level0] object KeptOffsets {
  type Offsets = IndexedSeq[Int]
  type Kept = Option[Offsets]

  final case class Key(app: Int, exec: Int, shuffle: Int, map: Long)

  /** Partitions of an output, from the first one to before the last. */
  final case class Range(key: Key, from: Int, until: Int)

  /** Bytes, or a refusal. */
  final case class Possible(bytes: Option[Array[Byte]]) {
    def is(found: Array[Byte]): Boolean = bytes.exists(JavaArrays.equals(_, found))
  }

  val Refusal: Possible = Possible(None)
}
