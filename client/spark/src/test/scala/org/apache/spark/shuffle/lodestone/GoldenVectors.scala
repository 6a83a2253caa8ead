// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

/** The bytes that other implementations read too: `name hex` per line, `#` for comments. */
private[lodestone] object GoldenVectors {

  def read(file: String): Map[String, Array[Byte]] = {
    val path = Paths.get(sys.props("lodestone.vectors"), file)
    new String(Files.readAllBytes(path), UTF_8)
      .split('\n')
      .toSeq
      .filterNot(line => line.isEmpty || line.startsWith("#"))
      .map { line =>
        val (name, hex) = line.splitAt(line.indexOf(' '))
        name -> hex.filterNot(_ == ' ').grouped(2).map(Integer.parseInt(_, 16).toByte).toArray
      }
      .toMap
  }
}
