// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

import java.io.File
import java.nio.file.Path

import org.junit.jupiter.api.Assertions.{assertEquals, assertTrue}
import org.junit.jupiter.api.{Tag, Test}
import org.junit.jupiter.api.io.TempDir

import org.apache.spark.sql.SparkSession

/**
 * Operators that keep rows of an exchange beyond the next one: each copies what it keeps, and a row
 * that changed before would be in the answer. Some rows are larger than the reader's window.
 */
@Tag("seldom")
final class KeptRowsSuite {
  @TempDir var directory: Path = _

  private val limited = "select * from (select * from wide distribute by k) limit 700"

  private val queries = Seq(
    "select * from wide distribute by k sort by k, id",
    "select k, id, lag(s) over (partition by k order by id) as before, " +
      "first(s) over (partition by k order by id rows between 3 preceding and 2 following) " +
      "from wide",
    "select l.id, r.id, l.s, r.s from wide l join wide r on l.k = r.k where l.id % 50 = 0",
    "select l.id, r.s from wide l left join wide r on l.k = r.k and r.id < 100",
    "select /*+ shuffle_hash(r) */ l.id, r.s from wide l join wide r on l.id = r.id",
    "select /*+ broadcast(r) */ l.id, r.s from wide l " +
      "join (select k, max(s) as s from wide group by k) r on l.k = r.k",
    "select k, collect_list(s), max(s) from (select * from wide distribute by k sort by id) " +
      "group by k",
    limited,
    "select * from wide order by s, id limit 300",
    "select distinct s, k from wide")

  private def answers(settings: (String, String)*): Seq[Seq[String]] = {
    val builder = SparkSession
      .builder()
      .config(LocalSpark.conf("kept-rows"))
      .config("spark.local.dir", directory.toString)
      .config("spark.sql.shuffle.partitions", "7")
      .config("spark.sql.adaptive.enabled", "false")
      .config("spark.sql.autoBroadcastJoinThreshold", "-1")
    settings.foreach { case (key, value) => builder.config(key, value) }
    val spark = builder.getOrCreate()
    try {
      // One row in 200 has 50 KB, and rows end at every place of a window.
      spark.range(0, 4000, 1, 5)
        .selectExpr(
          "id % 97 as k",
          "id",
          "repeat(cast(id as string), if(id % 200 = 7, 13000, cast(id % 31 as int))) as s")
        .createOrReplaceTempView("wide")
      queries.map(spark.sql(_).collect().map(_.toString).toSeq)
    } finally {
      spark.stop()
    }
  }

  @Test def `operators that keep rows find them as they were in each mode`(): Unit = {
    val expected = answers()
    val daemon = DaemonProcess.start(new File(directory.toFile, "daemon"))
    try
      for (mode <- Seq("auto", "merge", "remote")) {
        val found = answers(
          "spark.shuffle.manager" -> classOf[LodestoneShuffleManager].getName,
          "spark.lodestone.mode" -> mode,
          "spark.lodestone.services" -> daemon.hostPort)
        for (((query, plain), rows) <- queries.zip(expected).zip(found)) {
          assertTrue(plain.nonEmpty, query)
          assertEquals(plain.size, rows.size, s"$mode: $query")
          // Which rows a limit takes is not defined, but each must be one.
          if (query != limited) assertEquals(plain.sorted, rows.sorted, s"$mode: $query")
        }
        val some = found(queries.indexOf(limited)).toSet
        assertEquals(some, some.intersect(found.head.toSet), mode)
        assertEquals(700, some.size, s"$mode: a row is there twice")
      }
    finally daemon.stop()
  }
}
