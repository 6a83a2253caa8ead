-- SPDX-License-Identifier: Apache-2.0
-- TPC-H Q2, minimum cost supplier: SIZE = 15, TYPE = BRASS, REGION = EUROPE.
with offers as (
  select ps_partkey, ps_supplycost, s_acctbal, s_name, s_address, s_phone, s_comment, n_name
  from partsupp
  join supplier on s_suppkey = ps_suppkey
  join nation on s_nationkey = n_nationkey
  join region on n_regionkey = r_regionkey
  where r_name = 'EUROPE'
)
select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
from part
join offers on p_partkey = ps_partkey
where p_size = 15
  and p_type like '%BRASS'
  and ps_supplycost = (select min(o.ps_supplycost) from offers o where o.ps_partkey = p_partkey)
order by s_acctbal desc, n_name, s_name, p_partkey
limit 100
