// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.plan

import org.junit.jupiter.api.Assertions.{assertEquals, assertSame, assertThrows, assertTrue}
import org.junit.jupiter.api.Test

import org.apache.spark.SparkConf
import org.apache.spark.shuffle.{BaseShuffleHandle, ShuffleHandle}
import org.apache.spark.shuffle.lodestone.{LodestoneShuffleManager, SecondCopy}

/**
 * A shuffle that another copy of the classes registered would give wrong rows, so it is refused.
 */
final class LodestoneHandleSuite {
  private val manager = new LodestoneShuffleManager(new SparkConf(false), isDriver = false)

  private def ofSecondCopy(name: String, arguments: AnyRef*): ShuffleHandle = {
    val found = SecondCopy.of(name)
    assertTrue(found != Class.forName(name))
    found.getConstructors.head.newInstance(arguments: _*).asInstanceOf[ShuffleHandle]
  }

  private def writing(handle: ShuffleHandle): IllegalStateException =
    assertThrows(
      classOf[IllegalStateException],
      () => { manager.getWriter[Any, Any](handle, 0, null, null); () })

  private def reading(handle: ShuffleHandle): IllegalStateException =
    assertThrows(
      classOf[IllegalStateException],
      () => { manager.getReader[Any, Any](handle, 0, 1, 0, 1, null, null); () })

  @Test def `a handle of a second copy of the jar is refused with both jars in the error`()
      : Unit = {
    val inner = new BaseShuffleHandle[Any, Any, Any](0, null)
    for (handle <- Seq(
        ofSecondCopy(classOf[LocalHandle[_, _, _]].getName, inner, Int.box(2), null),
        ofSecondCopy(
          classOf[LodestoneHandle[_, _, _]].getName,
          inner,
          Int.box(2),
          null,
          Boolean.box(true),
          null));
      refused <- Seq(writing(handle), reading(handle))) {
      assertTrue(refused.getMessage.contains("two copies of the Lodestone jar"), refused.getMessage)
      assertEquals(2, "file:".r.findAllIn(refused.getMessage).size, refused.getMessage)
    }
  }

  @Test def `only the manager of an engine touches the blocks of the engine`(): Unit = {
    val frames = BlockFormat.EngineFrames("engine-1")
    val inner = new BaseShuffleHandle[Any, Any, Any](0, null)
    val handle = new LodestoneHandle(inner, 2, null, isRemote = true, frames)
    def by(format: Option[BlockFormat.EngineFrames]) = new InnerHandles(Set.empty, format)
    assertSame(inner, by(Some(frames)).of(handle))
    for (other <- Seq(None, Some(BlockFormat.EngineFrames("engine-2")))) {
      val refused = assertThrows(
        classOf[IllegalStateException],
        () => { by(other).of(handle); () })
      assertTrue(refused.getMessage.contains("engine-1"), refused.getMessage)
    }
  }

  @Test def `a handle of another shuffle manager is refused`(): Unit = {
    val foreign = new BaseShuffleHandle[Any, Any, Any](0, null) {}
    assertTrue(writing(foreign).getMessage.contains("another shuffle manager registered"))
    assertTrue(reading(foreign).getMessage.contains("another shuffle manager registered"))
  }
}
