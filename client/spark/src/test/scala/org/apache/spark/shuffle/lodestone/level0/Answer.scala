// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.level0

import java.util.{Arrays => JavaArrays}

/** What a client of Spark makes of an answer. Answers are compared as values. */
private[level0] sealed trait Answer

private[level0] object Answer {

  /** `BlockPushReturnCode`. */
  final case class Code(code: Int) extends Answer

  /** An answer without content, or no answer because there is none. */
  case object Done extends Answer

  /** The service refuses. Its text is for people: clients do not read it. */
  final case class Failed(why: String) extends Answer {
    override def equals(other: Any): Boolean = other.isInstanceOf[Failed]
    override def hashCode: Int = 1
  }

  /** The connection ended. */
  final case class Broken(why: String) extends Answer {
    override def equals(other: Any): Boolean = other.isInstanceOf[Broken]
    override def hashCode: Int = 2
  }

  /** `MergeStatuses`: maps and bytes of each partition. */
  final case class Statuses(byReduce: Map[Int, (Set[Int], Long)]) extends Answer

  /** Directories below the root of the service. */
  final case class Dirs(byExecutor: Map[String, Seq[String]]) extends Answer

  final case class Count(number: Int) extends Answer

  final case class Diagnosis(cause: String) extends Answer

  final case class Block(bytes: Array[Byte]) extends Answer {
    override def equals(other: Any): Boolean = other match {
      case Block(others) => JavaArrays.equals(bytes, others)
      case _ => false
    }
    override def hashCode: Int = JavaArrays.hashCode(bytes)
    override def toString: String = s"Block(${bytes.length} bytes, hash $hashCode)"
  }

  /** A chunk of a merged partition, and the maps that its bitmap names. */
  final case class Chunk(maps: Set[Int], block: Block)

  final case class Merged(chunks: Seq[Chunk]) extends Answer

  /** One answer for each part of the operation. */
  final case class Each(parts: Seq[Answer]) extends Answer

  def isRefusal(answer: Answer): Boolean = answer match {
    case Failed(_) | Broken(_) => true
    case _ => false
  }
}
