-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q21, suppliers who kept orders waiting: NATION = SAUDI ARABIA.
select s_name, count(*) as numwait
from supplier
join lineitem late on s_suppkey = late.l_suppkey
join orders on o_orderkey = late.l_orderkey
join nation on s_nationkey = n_nationkey
where o_orderstatus = 'F'
  and late.l_receiptdate > late.l_commitdate
  and exists (
    select * from lineitem other
    where other.l_orderkey = late.l_orderkey and other.l_suppkey <> late.l_suppkey
  )
  and not exists (
    select * from lineitem other
    where other.l_orderkey = late.l_orderkey
      and other.l_suppkey <> late.l_suppkey
      and other.l_receiptdate > other.l_commitdate
  )
  and n_name = 'SAUDI ARABIA'
group by s_name
order by numwait desc, s_name
limit 100
