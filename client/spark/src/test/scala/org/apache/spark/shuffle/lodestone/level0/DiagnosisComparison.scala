// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import org.apache.spark.SPARK_VERSION

/** Compares causes of damage with those that follow from the files of an output. */
private[level0] final class DiagnosisComparison(world: World, note: Improvement => Unit) {
  import DiagnosisComparison._

  def compare(one: Diagnose, sparks: Answer, ours: Answer): Unit = {
    val known = world.app(one.app)
    val isRegistered = known.executors(one.exec)
    val key = KeptOffsets.Key(one.app, one.exec, one.shuffle, one.map)
    val output = known.outputs.get((one.exec, one.shuffle, one.map))
    val own = ourCause(one, output.filter(_ => isRegistered))
    val theirs = if (isRegistered) sparksCauses(one, key, output) else Set(Unknown)
    val isSo = theirs(sparks) && ours == own
    if (!isSo) throw new Difference(one, s"one of $theirs, and $own", sparks, ours)
    if (one.algorithm == Crc32c && sparks == Unsupported) note(Improvement.Crc32c)
    if (isRegistered) world.kept.look(key, output)
  }

  private def ourCause(one: Diagnose, output: Option[World.Output]): Answer =
    if (!OurAlgorithms(one.algorithm)) Unsupported
    else {
      val bytes = output.flatMap(_.read(one.reduce, one.reduce + 1))
      cause(one, output.flatMap(_.sums.get(one.algorithm)), bytes)
    }

  /** Spark's service looks for the block first. */
  private def sparksCauses(one: Diagnose, key: KeptOffsets.Key, output: Option[World.Output])
      : Set[Answer] = {
    val sums = output.flatMap(_.sums.get(one.algorithm)).filter(_.areAtSparks)
    val file = output.filter(!_.isRemoved)
    val range = KeptOffsets.Range(key, one.reduce, one.reduce + 1)
    world.kept.found(range, output).map {
      case None => Unknown
      case Some(_) if !sparksAlgorithms(one.algorithm) => Unsupported
      case Some((from, until)) => cause(one, sums, file.map(_.bytes.slice(from, until)))
    }
  }

  private def cause(one: Diagnose, sums: Option[World.Sums], bytes: Option[Array[Byte]]): Answer = {
    val writers = sums.flatMap(_.of.lift(one.reduce))
    val now = bytes.map(Content.checksum(one.algorithm, _))
    (writers, now) match {
      case (Some(written), Some(read)) if written != read => Answer.Diagnosis("DISK_ISSUE")
      case (Some(written), Some(_)) if written != one.seen => Answer.Diagnosis("NETWORK_ISSUE")
      case (Some(_), Some(_)) => Answer.Diagnosis("CHECKSUM_VERIFY_PASS")
      case _ => Unknown
    }
  }
}

private object DiagnosisComparison {
  val Unsupported: Answer = Answer.Diagnosis("UNSUPPORTED_CHECKSUM_ALGORITHM")
  val Unknown: Answer = Answer.Diagnosis("UNKNOWN_ISSUE")
  val Crc32c = "CRC32C"
  val OurAlgorithms = Set("ADLER32", "CRC32", Crc32c)
  val sparksAlgorithms: Set[String] =
    if (SPARK_VERSION.startsWith("3.")) OurAlgorithms - Crc32c else OurAlgorithms
}
