-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q13, customer distribution: WORD1 = special, WORD2 = requests.
with counted as (
  select c_custkey, count(o_orderkey) as c_count
  from customer
  left join orders on c_custkey = o_custkey and o_comment not like '%special%requests%'
  group by c_custkey
)
select c_count, count(*) as custdist
from counted
group by c_count
order by custdist desc, c_count desc
