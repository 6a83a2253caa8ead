// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone.gluten

import java.io.{ByteArrayInputStream, InputStream}
import java.lang.reflect.{InvocationTargetException, Modifier}
import java.net.{URL, URLClassLoader}
import java.nio.file.{Files, Path}
import javax.tools.ToolProvider

import org.apache.gluten.shuffle.SupportsColumnarShuffle
import org.apache.gluten.vectorized.UnifflePartitionWriterJniWrapper
import org.junit.jupiter.api.Assertions.{assertEquals, assertFalse, assertTrue}
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.SparkConf

/** A class path with another Gluten is found at the start, and not by native code. */
final class GlutenLinkageSuite {
  private val wrapper = classOf[UnifflePartitionWriterJniWrapper].getName
  private val argument = "org.apache.spark.shuffle.writer.VeloxUniffleColumnarShuffleWriter"

  @TempDir var directory: Path = _

  /** Returns what the check says with the jars in this order, without some classes. */
  private def checked(
      places: Seq[URL],
      release: String = "1.6.0",
      missing: Set[String] = Set.empty): Option[String] = {
    val loader = new Isolated(places, release, missing)
    try {
      val linkage = loader.loadClass(GlutenLinkage.getClass.getName)
      linkage.getMethod("check").invoke(linkage.getField("MODULE$").get(null))
      None
    } catch { case thrown: InvocationTargetException => Some(thrown.getCause.getMessage) }
    finally loader.close()
  }

  private def placeOf(name: String): URL =
    Class.forName(name).getProtectionDomain.getCodeSource.getLocation

  private val ours = placeOf(classOf[LodestoneGlutenShuffleManager].getName)
  private val gluten = placeOf(classOf[SupportsColumnarShuffle].getName)

  /** Returns a place with the class that a Gluten with Uniffle has. */
  private def withUniffle(method: String): URL = {
    val source = directory.resolve("PartitionPusher.java")
    Files.write(
      source,
      s"""package org.apache.spark.shuffle.writer;
        |public class PartitionPusher {
        |  private final VeloxUniffleColumnarShuffleWriter<?, ?> writer;
        |  public PartitionPusher(VeloxUniffleColumnarShuffleWriter<?, ?> writer) {
        |    this.writer = writer;
        |  }
        |  public VeloxUniffleColumnarShuffleWriter<?, ?> uniffleWriter() { return writer; }
        |  $method { return writer.doAddByte(partition, bytes, (int) length); }
        |}""".stripMargin.getBytes("UTF-8"))
    val classes = Files.createTempDirectory(directory, "uniffle")
    val settings = Seq("-cp", gluten.getPath, "-d", classes.toString, source.toString)
    assertEquals(0, ToolProvider.getSystemJavaCompiler.run(null, null, null, settings: _*))
    classes.toUri.toURL
  }

  private val method = "public int pushPartitionData(int partition, byte[] bytes, int length)"

  /** Gluten's own class has a field of a class that extends one of Uniffle's. */
  private val noUniffle = Set(argument)

  @Test def `a Gluten without Uniffle is taken`(): Unit =
    assertEquals(None, checked(Seq(ours, gluten), missing = noUniffle))

  @Test def `a Gluten with Uniffle is taken before and behind this jar`(): Unit = {
    val bundle = withUniffle(method)
    for (missing <- Seq(noUniffle, Set.empty[String])) {
      assertEquals(None, checked(Seq(bundle, ours, gluten), missing = missing))
      assertEquals(None, checked(Seq(ours, gluten, bundle), missing = missing))
    }
  }

  @Test def `a Gluten whose classes of these names are others stops the application`(): Unit =
    for (other <- Seq(
        method.replace("public", "public final"),
        method.replace("int length", "long length"),
        method.replace("pushPartitionData", "push"))) {
      val said = checked(Seq(withUniffle(other), ours, gluten))
      assertTrue(said.exists(_.contains("the classes of Gluten on the class path are")), s"$said")
    }

  @Test def `another release of Gluten stops the application`(): Unit =
    for (release <- Seq("1.5.0", "1.7.0-SNAPSHOT", "1.60")) {
      val said = checked(Seq(ours, gluten), release)
      assertTrue(said.exists(_.contains(s"Gluten $release is on the class path")), s"$said")
    }

  @Test def `a Gluten without the backend Velox stops the application`(): Unit = {
    val velox = "org.apache.gluten.vectorized.ShuffleWriterJniWrapper"
    val said = checked(Seq(ours, gluten), missing = Set(velox))
    assertTrue(said.exists(_.contains("the classes of Gluten on the class path are")), s"$said")
  }

  @Test def `native code finds the method of this jar by its name and types`(): Unit = {
    val loader = new Isolated(Seq(ours, gluten), "1.6.0", Set.empty)
    val native = loader.loadClass(wrapper).getMethods
      .find(_.getName == "createPartitionWriter").get
    assertTrue(Modifier.isNative(native.getModifiers))
    assertEquals(
      "int,String,String,int,int,int,long,Object",
      native.getParameterTypes.map(_.getSimpleName).mkString(","))
    assertEquals("long", native.getReturnType.getName)
    loader.close()
  }

  @Test def `with encryption Spark has the shuffles of mode remote unless the user says so`()
      : Unit = {
    val key = "spark.gluten.sql.columnar.shuffle"
    def made(settings: (String, String)*): Option[String] = {
      val conf = new SparkConf(false).setAll(settings)
      GlutenDefaults(conf)
      conf.getOption(key)
    }
    val (remote, encrypted) =
      ("spark.lodestone.mode" -> "remote", "spark.io.encryption.enabled" -> "true")
    assertEquals(Some("false"), made(remote, encrypted))
    assertEquals(Some("true"), made(remote, encrypted, key -> "true"))
    assertEquals(None, made(remote))
    assertEquals(None, made("spark.lodestone.mode" -> "merge", encrypted))
  }

  @Test def `Gluten takes the manager for one of columns and not for Celeborn's`(): Unit = {
    val manager = classOf[LodestoneGlutenShuffleManager]
    assertTrue(classOf[SupportsColumnarShuffle].isAssignableFrom(manager))
    assertFalse(manager.getName.contains("celeborn"))
  }
}

/**
 * Loads the classes of Gluten and of the adapter from these places, and all others as usual.
 */
private final class Isolated(places: Seq[URL], release: String, missing: Set[String])
    extends URLClassLoader(places.toArray, classOf[GlutenLinkageSuite].getClassLoader) {
  private val Own = Seq(
    "org.apache.gluten.",
    "org.apache.spark.shuffle.lodestone.gluten.",
    "org.apache.spark.shuffle.writer.",
    "org.apache.spark.shuffle.sort.Columnar")

  override def loadClass(name: String, resolve: Boolean): Class[_] =
    if (missing.contains(name)) throw new ClassNotFoundException(name)
    else if (!Own.exists(name.startsWith(_))) super.loadClass(name, resolve)
    else {
      getClassLoadingLock(name).synchronized {
        Option(findLoadedClass(name)).getOrElse(findClass(name))
      }
    }

  override def getResourceAsStream(name: String): InputStream =
    new ByteArrayInputStream(s"gluten_version=$release\n".getBytes("UTF-8"))
}
