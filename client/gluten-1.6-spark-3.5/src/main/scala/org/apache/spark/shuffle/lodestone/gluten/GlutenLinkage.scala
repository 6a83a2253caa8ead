// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import java.lang.Integer.{TYPE => IntType}
import java.lang.Long.{TYPE => LongType}
import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}
import java.util.Properties

import org.apache.gluten.vectorized.{ShuffleWriterJniWrapper, UnifflePartitionWriterJniWrapper}

import org.apache.spark.shuffle.sort.ColumnarShuffleManager
import org.apache.spark.shuffle.writer.PartitionPusher

/**
 * Whether the Gluten on the class path is the one that this jar fits. Native code finds classes and
 * methods by name, and nothing compares what it finds with what it expects: a wrong one would be
 * undefined behaviour in the executor. So each application looks at its start, by the names and
 * signatures that native code has.
 */
private[gluten] object GlutenLinkage {
  val Release = "1.6"
  private val Pusher = "org.apache.spark.shuffle.writer.PartitionPusher"
  private val lookup = MethodHandles.lookup()

  def check(): Unit = {
    if (!found.startsWith(s"$Release.")) {
      fail(s"Gluten $found is on the class path", None)
    }
    try {
      checkLoaders()
      checkNative()
      checkPusher()
    } catch {
      // The class path lacks a class or a method, or has another one.
      case wrong @ (_: ReflectiveOperationException | _: LinkageError) =>
        fail(s"the classes of Gluten on the class path are others: $wrong", Some(wrong))
    }
  }

  /** The release as Gluten's own jar has it. */
  private def found: String = {
    val properties = new Properties
    val file = classOf[ColumnarShuffleManager].getClassLoader
      .getResourceAsStream("gluten-build-info.properties")
    if (file != null) {
      try properties.load(file)
      finally file.close()
    }
    properties.getProperty("gluten_version", "of an unknown release")
  }

  /** A native library serves the classes of one loader, and looks there for others. */
  private def checkLoaders(): Unit = {
    val wrapper = classOf[UnifflePartitionWriterJniWrapper].getClassLoader
    if (wrapper ne classOf[ShuffleWriterJniWrapper].getClassLoader) {
      fail("Gluten's jar is in another class path than this one: put both in the same", None)
    }
    if (Class.forName(Pusher, false, wrapper) ne classOf[PartitionPusher]) {
      fail(s"there are two classes $Pusher", None)
    }
  }

  private def checkNative(): Unit = {
    val text = classOf[String]
    method(
      classOf[UnifflePartitionWriterJniWrapper],
      "createPartitionWriter",
      LongType,
      Seq(IntType, text, text, IntType, IntType, IntType, LongType, classOf[Object]))
    val (hash, sort) = ("createHashShuffleWriter", "createSortShuffleWriter")
    val real = java.lang.Double.TYPE
    val writers = classOf[ShuffleWriterJniWrapper]
    method(writers, hash, LongType, Seq(IntType, text, IntType, IntType, real, LongType))
    val truth = java.lang.Boolean.TYPE
    method(writers, sort, LongType, Seq(IntType, text, IntType, IntType, IntType, truth, LongType))
  }

  /** Calls as native code does: the method of the class, on an object of ours. */
  private def checkPusher(): Unit = {
    var taken = -1
    val pusher = new FramePusher((partition, _, _) => taken = partition)
    val push = method(
      classOf[PartitionPusher],
      "pushPartitionData",
      IntType,
      Seq(IntType, classOf[Array[Byte]], IntType))
    push.invokeWithArguments(pusher, Int.box(7), Array.emptyByteArray, Int.box(0))
    if (taken != 7) fail(s"a class $Pusher on the class path takes calls for itself", None)
  }

  /** Unlike reflection it looks at no other method: those of Gluten may need classes of Uniffle. */
  private def method(of: Class[_], name: String, gives: Class[_], takes: Seq[Class[_]])
      : MethodHandle =
    lookup.findVirtual(of, name, MethodType.methodType(gives, takes.toArray[Class[_]]))

  private def fail(what: String, cause: Option[Throwable]): Nothing =
    throw new IllegalStateException(
      s"this jar of Lodestone is for Gluten $Release with the backend Velox: $what",
      cause.orNull)
}
