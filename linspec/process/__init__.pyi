from linspec.process.files import check_memory as check_memory
from linspec.process.files import check_memory_for_sparse as check_memory_for_sparse
from linspec.process.machine import available_memory as available_memory
from linspec.process.pauses import pause as pause
from linspec.process.plurals import count_of as count_of
from linspec.process.progress import tell_rows as tell_rows
