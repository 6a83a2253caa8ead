// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.net.{URL, URLClassLoader}

/** Loads Lodestone's classes a second time, as `spark.executor.userClassPathFirst` does. */
private[lodestone] object SecondCopy {

  /** A class of this name that is not the one that the test uses. */
  def of(name: String): Class[_] = {
    val place = Class.forName(name).getProtectionDomain.getCodeSource.getLocation
    new Loader(Array(place)).loadClass(name)
  }

  private final class Loader(places: Array[URL])
      extends URLClassLoader(places, getClass.getClassLoader) {
    override def loadClass(name: String, resolve: Boolean): Class[_] =
      if (name.startsWith("org.apache.spark.shuffle.lodestone.")) {
        Option(findLoadedClass(name)).getOrElse(findClass(name))
      } else {
        super.loadClass(name, resolve)
      }
  }
}
