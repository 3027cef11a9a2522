{# A model whose table is a release: its SQL says which rows, its policy what must hold.
   The rows are shown to sqlanon as the view MODEL__rows, which the policy names as its source;
   its release is the model. Nothing is written if a requirement cannot be met: the last release stays. #}
{% materialization sqlanon, adapter='duckdb' %}
  {% set policy = config.require('policy') %}
  {% set rows = this.incorporate(path={'identifier': this.identifier ~ '__rows'}, type='view') %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {% call statement('main') %}
    create or replace view {{ rows }} as {{ compiled_code }}
  {% endcall %}
  {# The command has a connection of its own, which sees what is committed. #}
  {% do adapter.commit() %}
  {% do sqlanon.run([config.get('command', 'publish'), policy] + config.get('options', [])) %}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [this.incorporate(type='table')]}) }}
{% endmaterialization %}
