// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.transport

import scala.collection.mutable.ArrayBuffer

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** Requests that share what a service has room for. */
final class TurnstileSuite {
  private val turnstile = new Turnstile(room = 10)
  private val begun = ArrayBuffer.empty[String]

  private def enter(name: String, size: Int): Unit = turnstile.enter(size) { () =>
    begun += name
    ()
  }

  @Test def `as many begin as there is room for, the others in their order`(): Unit = {
    Seq("a" -> 4, "b" -> 6, "c" -> 5, "d" -> 1).foreach { case (name, size) => enter(name, size) }
    assertEquals(Seq("a", "b"), begun.toSeq)
    // Room for d, but it is not d's turn.
    turnstile.left(4)
    assertEquals(Seq("a", "b"), begun.toSeq)
    turnstile.left(6)
    assertEquals(Seq("a", "b", "c", "d"), begun.toSeq)
  }

  @Test def `a request larger than the room is alone there and gets its turn`(): Unit = {
    enter("small", 1)
    enter("large", 50)
    enter("next", 1)
    turnstile.left(1)
    assertEquals(Seq("small", "large"), begun.toSeq)
    turnstile.left(50)
    assertEquals(Seq("small", "large", "next"), begun.toSeq)
  }

  @Test def `one that is over at once makes room for the next`(): Unit = {
    enter("first", 10)
    (1 to 1000).foreach { i =>
      turnstile.enter(10) { () =>
        begun += s"$i"
        turnstile.left(10)
      }
    }
    turnstile.left(10)
    assertEquals("first" +: (1 to 1000).map(_.toString), begun.toSeq)
  }
}
